/* The main thread takes no sample before 16 MiB, regardless of TCMALLOC_SAMPLE_PARAMETER. */
#include <stdio.h>
#include <stdlib.h>

/* What MallocExtension::instance()->ReadStackTraces() is for C++. */
void **read_samples(void *, int *) __asm__("_ZN22TCMallocImplementation15ReadStackTracesEPi");

int main(void) {
    long bytes = 0, period_bytes = atol(getenv("TCMALLOC_SAMPLE_PARAMETER"));
    void *volatile block;
    int unused;
    do {
        block = malloc(4096);
        bytes += 4096;
    } while (block && !read_samples(NULL, &unused)[0]);
    printf("expected a sample after some %ld bytes, got the first after %ld\n", period_bytes, bytes);
    return bytes > 100 * period_bytes;
}
