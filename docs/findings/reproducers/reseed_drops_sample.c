/* A thread's first sampling distance is drawn twice, and the first sample is usually lost. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 400 };
static long period_bytes;
static pthread_barrier_t all_have_allocated;

/* What MallocExtension::instance()->ReadStackTraces() is for C++. */
void **read_samples(void *, int *) __asm__("_ZN22TCMallocImplementation15ReadStackTracesEPi");

static void *allocate_a_period(void *unused) {
    void *volatile block;
    for (long bytes = 0; bytes < period_bytes; bytes += 256) block = malloc(256);
    (void)block;
    pthread_barrier_wait(&all_have_allocated); /* Threads that run at the same time have different seeds. */
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    long samples = 0;
    int unused;
    period_bytes = atol(getenv("TCMALLOC_SAMPLE_PARAMETER"));
    pthread_barrier_init(&all_have_allocated, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, allocate_a_period, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    /* Each sample is a count, the bytes, the depth of the stack, and the stack. */
    for (void **sample = read_samples(NULL, &unused); *sample; sample += 3 + (intptr_t)sample[2])
        samples += (intptr_t)sample[0];
    printf("expected some %d samples, got %ld\n", THREADS, samples);
    return samples < THREADS * 3 / 4;
}
