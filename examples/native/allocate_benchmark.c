/* Allocates so many objects that all fit in the nursery, for counting instructions.
 *
 *     valgrind --tool=callgrind build/allocate COUNT [PERIOD_BYTES]
 *
 * The difference between two counts is what an allocation costs, without the start. It is built
 * without sampling, with the sampling of the collector (off, or on if there is a period), and with
 * the obvious counter instead, listing 3 of Jung and Bolz-Tereick, Low Overhead Allocation
 * Sampling in a Garbage Collected Virtual Machine.
 */
#include <stdio.h>
#include <stdlib.h>

#include "collector.h"
#include "sampling.h"

enum { NURSERY_BYTES = 1 << 24, OBJECT_BYTES = 32, COUNT_MAX = NURSERY_BYTES / OBJECT_BYTES };

static void no_roots(void (*visit)(object **root)) { (void)visit; }
static void nothing(void) {}
static void no_report(const object *sampled, bool survived) { (void)sampled; (void)survived; }

#ifdef LISTING_3

static size_t allocated_bytes, period_bytes = SIZE_MAX;

__attribute__((noinline)) static void sample_now(void)
{
    allocated_bytes = 0;
}

static inline uintptr_t reserve(size_t size_bytes)
{
    uintptr_t result = gc_reserve(size_bytes);
    allocated_bytes += size_bytes;
    if (allocated_bytes >= period_bytes)
        sample_now();
    return result;
}

static void enable(size_t period) { period_bytes = period; }

#else

static inline uintptr_t reserve(size_t size_bytes) { return gc_reserve(size_bytes); }

#ifdef WITHOUT_SAMPLING
static void enable(size_t period) { (void)period; }
#else
static void enable(size_t period) { sampling_enable(period); }
#endif

#endif

int main(int argument_count, char **arguments)
{
    const collector_events events = {no_roots, nothing, nothing, nothing, no_report};
    long count = argument_count > 1 ? strtol(arguments[1], NULL, 10) : -1;
    long period = argument_count > 2 ? strtol(arguments[2], NULL, 10) : 0;
    if (count < 0 || count > COUNT_MAX) {
        fprintf(stderr, "usage: allocate COUNT [PERIOD_BYTES], COUNT at most %d\n", COUNT_MAX);
        return EXIT_FAILURE;
    }
    gc_start(NURSERY_BYTES, NURSERY_BYTES, events);
    if (period > 0)
        enable((size_t)period);
    for (long i = 0; i < count; i++) {
        uintptr_t obj = reserve(OBJECT_BYTES);
        /* As far as the compiler knows, the mutator does anything with the object and with gc. */
        __asm__ volatile("" : : "r"(obj) : "memory");
    }
    gc_stop();
    return EXIT_SUCCESS;
}
