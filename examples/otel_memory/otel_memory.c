/* The sampler; see otel_memory.h for its contract. */
#include "otel_memory.h"

#include <math.h>
#include <stdlib.h>

/* Mistakes that such samplers have made, each compiled in by `make BUG=NAME`. */

/* Bytes that were allocated while sampling was off count for the next sample. */
#ifndef BUG_CHARGES_BYTES_WHILE_OFF
#define BUG_CHARGES_BYTES_WHILE_OFF 0
#endif
/* A block that has no room for a mark ends a distance, and no probe fires. */
#ifndef BUG_REFUSED_SAMPLES_VANISH
#define BUG_REFUSED_SAMPLES_VANISH 0
#endif
/* The generator returns 0 in the state 0, and stays there. */
#ifndef BUG_ABSORBING_STATE
#define BUG_ABSORBING_STATE 0
#endif
/* A child goes on with its parent's generator. */
#ifndef BUG_CHILDREN_ALIKE
#define BUG_CHILDREN_ALIKE 0
#endif

enum { MARKED_BYTES_MAX = 1024 };

static struct {
    otel_probes probes;
    uint64_t state;        /* of the generator */
    uint64_t period_bytes; /* 0: sampling is off */
    int64_t until_bytes;   /* up to the next sampled byte, which is included */
    int64_t off_bytes;     /* only with BUG_CHARGES_BYTES_WHILE_OFF */
    void **sampled;        /* the living blocks */
    size_t count, capacity;
} sampler;

static uint64_t next_number(void) /* splitmix64 (Steele, Lea and Flood, 2014) */
{
    if (BUG_ABSORBING_STATE && sampler.state == 0)
        return 0;
    uint64_t z = sampler.state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

/* The trials up to a success whose probability is 1 / period. */
static int64_t draw(void)
{
    double uniform = (double)(next_number() >> 11) * 0x1p-53;
    if (sampler.period_bytes == 1)
        return 1;
    return (int64_t)floor(log(1 - uniform) / log(1 - 1 / (double)sampler.period_bytes)) + 1;
}

void otel_start(uint64_t seed, otel_probes probes)
{
    free(sampler.sampled);
    sampler = (typeof(sampler)){.probes = probes, .state = seed};
}

void otel_forked(uint64_t number)
{
    if (!BUG_CHILDREN_ALIKE)
        sampler.state += number << 32;
}

void otel_enable(uint64_t period_bytes)
{
    sampler.period_bytes = period_bytes;
    sampler.until_bytes = draw() - sampler.off_bytes;
    sampler.off_bytes = 0;
}

void otel_disable(void)
{
    sampler.period_bytes = 0;
}

static void report(void *ptr, size_t size, uint64_t weighted_bytes)
{
    if (sampler.count == sampler.capacity) {
        sampler.capacity = 2 * sampler.capacity + 16;
        sampler.sampled = realloc(sampler.sampled, sampler.capacity * sizeof *sampler.sampled);
        if (sampler.sampled == NULL)
            abort();
    }
    sampler.sampled[sampler.count++] = ptr;
    sampler.probes.alloc(ptr, size, weighted_bytes);
}

static void allocated(void *ptr, size_t size)
{
    if (ptr == NULL)
        return;
    if (sampler.period_bytes == 0) {
        if (BUG_CHARGES_BYTES_WHILE_OFF)
            sampler.off_bytes += (int64_t)size;
        return;
    }
    int64_t behind_bytes = (int64_t)size - sampler.until_bytes;
    if (behind_bytes < 0) {
        sampler.until_bytes -= (int64_t)size;
        return;
    }
    sampler.until_bytes = draw();
    if (!BUG_REFUSED_SAMPLES_VANISH || size <= MARKED_BYTES_MAX)
        report(ptr, size, sampler.period_bytes + (uint64_t)behind_bytes);
}

void *otel_malloc(size_t size)
{
    void *ptr = malloc(size);
    allocated(ptr, size);
    return ptr;
}

void otel_free(void *ptr)
{
    for (size_t i = 0; i < sampler.count; i++)
        if (sampler.sampled[i] == ptr) {
            sampler.sampled[i] = sampler.sampled[--sampler.count];
            sampler.probes.free(ptr);
            break;
        }
    free(ptr);
}
