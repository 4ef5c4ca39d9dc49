/* The smallest adapter: calloc, with a sampling counter (docs/your-own-collector.md). */

#include <stdlib.h>

#include "gcfuzz_adapter.h"

enum { NODE = 1, STRING = 2 };

/* YOURS: the header of your objects, or a table beside them. */
typedef struct {
    uint32_t kind;
    int64_t number; /* of a node, or the length of a string */
} object;

static uint64_t period_bytes, counted_bytes;

/* YOURS: your sampler. It calls gcfuzz_sampled() for each sample. */
static void count(uint64_t size_bytes) /* as the paper's listing 3 */
{
    counted_bytes += size_bytes;
    if (period_bytes && counted_bytes >= period_bytes) {
        gcfuzz_sampled(); /* where a profiler records the call stack */
        counted_bytes = 0;
    }
}

/* YOURS: how your sampler is switched. */
static void enable_sampling(uint64_t period)
{
    period_bytes = period;
    counted_bytes = 0;
}

static void disable_sampling(bool report)
{
    (void)report; /* the contract promises dropping only */
    period_bytes = 0;
}

/* YOURS: in place of calloc, call your collector. */
static void *allocate(uint32_t kind, int64_t number, uint64_t size_bytes)
{
    object *obj = calloc(1, size_bytes);
    if (obj == NULL)
        return NULL; /* the kit reports an error */
    obj->kind = kind;
    obj->number = number;
    gcfuzz_placed(size_bytes, true, 0);
    count(size_bytes);
    return obj;
}

static void *allocate_node(int64_t number, bool nonmovable)
{
    (void)nonmovable; /* all objects lie outside the nursery, as nonmovable ones must */
    return allocate(NODE, number, sizeof(object));
}

static void *allocate_string(uint64_t length, bool nonmovable)
{
    (void)nonmovable;
    return allocate(STRING, (int64_t)length, sizeof(object) + length);
}

static void describe(const void *described, gcfuzz_description *description)
{
    const object *obj = described;
    description->type_index = obj->kind;
    description->number = obj->number;
}

/* YOURS: what the answers have, and what an object costs. `gcfuzz help protocol` explains each
 * name, `gcfuzz help sampling-rules` the keys of .sampling. */
static const char *const OBSERVES[] = {"samples", "size", "outside", "value", NULL};

static void start(const int64_t *values, gcfuzz_contract *contract)
{
    (void)values; /* of the settings, if there were any */
    period_bytes = 0;
    *contract = (gcfuzz_contract){
        .nursery_bytes = 4096,
        .node = {NODE, sizeof(object), 0},
        .string = {STRING, sizeof(object), 1},
        .word_bytes = 8,
        .large_object_bytes = 1, /* there is no nursery: everything lies outside */
        .object_bytes_max = 65536,
        .observes = OBSERVES,
        .sampling = {.minimum_bytes = 8, .maximum_bytes = 1 << 20, .multiple_bytes = 8,
                     .drops_when_disabled = true},
    };
}

/* YOURS: an action without a callback is never asked for. */
static const gcfuzz_adapter ADAPTER = {
    .start = start,
    .describe = describe,
    .allocate_node = allocate_node,
    .allocate_string = allocate_string,
    .enable_sampling = enable_sampling,
    .disable_sampling = disable_sampling,
};

int main(void)
{
    return gcfuzz_serve(&ADAPTER);
}
