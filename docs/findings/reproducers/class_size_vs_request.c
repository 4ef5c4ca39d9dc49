/* The sampler counts the size class, and pprof assumes the requested size. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { OBJECTS = 400000 };

/* What MallocExtension::instance()->ReadStackTraces() is for C++. */
void **read_samples(void *, int *) __asm__("_ZN22TCMallocImplementation15ReadStackTracesEPi");

int main(void) {
    double objects = 0, period_bytes = atof(getenv("TCMALLOC_SAMPLE_PARAMETER"));
    void *volatile block = malloc(17 << 20); /* Before that nothing is sampled in this thread. */
    int unused;
    free(block);
    for (int i = 0; i < OBJECTS; i++) block = malloc(1);
    /* Each sample is a count, the bytes, the depth of the stack, and the stack. */
    for (void **sample = read_samples(NULL, &unused); *sample; sample += 3 + (intptr_t)sample[2]) {
        double count = (intptr_t)sample[0], size = (intptr_t)sample[1] / count;
        objects += count / (1 - exp(-size / period_bytes)); /* AdjustSamples() of src/pprof */
    }
    printf("expected some %d objects, got %.0f\n", OBJECTS, objects);
    return objects > 2 * OBJECTS;
}
