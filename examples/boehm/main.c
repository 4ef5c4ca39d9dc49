/* The Boehm collector behind the adapter kit of examples/native, with a sampler on top of it.
 *
 * It moves nothing, takes what looks like an address on a stack for a reference, collects whenever
 * it likes, and keeps its heap from trace to trace; docs/nondeterminism.md says how that shows in a
 * contract. No weak reference is promised: a word forgotten on a stack keeps a dead object alive.
 */
#include <gc/gc.h>
#include <gc/gc_mark.h>
#include <stdlib.h>
#include <string.h>

#include "gcfuzz_adapter.h"

enum { NODE = 1, ARRAY, STRING, WORD_BYTES = 8, NODE_REFERENCES = 2, CALL_STACK_BYTES = 256 };

typedef struct object {
    uint32_t kind;
    int64_t number; /* of a node, or the length of an array or a string */
    struct object *references[];
} object;

/* ---- What the collector asks, and what it tells ---- */

static GC_push_other_roots_proc push_stacks;

/* The nodes whose finalizers the collector has called, until run_finalizers. */
static struct {
    object **nodes;
    int64_t *numbers;
    size_t count, capacity;
} pending;

/* The kit's roots are pushed in each collection. A range that GC_add_roots is told of once would be
 * the wrong one as soon as the kit's array grows, since it moves. */
static void push_roots(void)
{
    push_stacks();
    GC_push_all(gcfuzz_roots.slots, gcfuzz_roots.slots + gcfuzz_roots.count);
    GC_push_all(gcfuzz_kept.slots, gcfuzz_kept.slots + gcfuzz_kept.count);
    GC_push_all(pending.nodes, pending.nodes + pending.count);
}

static void happened(GC_EventType event)
{
    if (event == GC_EVENT_START)
        gcfuzz_collected();
}

/* What was found unreachable is no object any more: who still reaches it sees that at once, and not
 * only when the memory serves another. */
static void died(void *found, void *nothing)
{
    (void)nothing;
    ((object *)found)->kind = 0;
}

/* ---- Finalizers ---- */

static uintptr_t traces; /* how many began */

static void add_pending(object *node, int64_t number)
{
    if (pending.count == pending.capacity) {
        pending.capacity = 2 * pending.capacity + 16;
        pending.nodes = realloc(pending.nodes, pending.capacity * sizeof *pending.nodes);
        pending.numbers = realloc(pending.numbers, pending.capacity * sizeof *pending.numbers);
        if (pending.nodes == NULL || pending.numbers == NULL)
            abort();
    }
    pending.nodes[pending.count] = node;
    pending.numbers[pending.count++] = number;
}

static void unregister_finalizer(void *node)
{
    GC_REGISTER_FINALIZER_NO_ORDER(node, died, NULL, NULL, NULL);
}

/* The collector calls it when it decides to. So that is tested, and not when this program asks. A
 * node of an earlier trace may die in this one. */
static void finalize(void *node, void *given)
{
    if ((uintptr_t)given >> 32 == traces)
        add_pending(node, (int64_t)((uintptr_t)given & UINT32_MAX));
    unregister_finalizer(node);
}

static void register_finalizer(void *const *node, int64_t number)
{
    void *given = (void *)(traces << 32 | (uintptr_t)number);
#ifdef BUG_FINALIZERS_WITHOUT_ORDER /* one may find what it refers to finalized */
    GC_REGISTER_FINALIZER_NO_ORDER(*node, finalize, given, NULL, NULL);
#else
    GC_REGISTER_FINALIZER(*node, finalize, given, NULL, NULL);
#endif
}

static void run_finalizers(void)
{
    for (size_t index = 0; index < pending.count; index++)
        gcfuzz_finalized(pending.numbers[index], pending.nodes[index]);
    pending.count = 0;
}

/* ---- Allocation, and a sampler as one would write it on top ---- */

static uint64_t period_bytes, counted_bytes;

static void count(uint64_t size_bytes)
{
    counted_bytes += size_bytes;
    for (; period_bytes && counted_bytes > period_bytes; counted_bytes -= period_bytes) {
        GC_MALLOC_ATOMIC(CALL_STACK_BYTES); /* which may collect */
        gcfuzz_sampled();
    }
}

static void *allocate(uint32_t kind, int64_t number, uint64_t size_bytes, bool has_references)
{
    object *obj = has_references ? GC_MALLOC(size_bytes) : GC_MALLOC_ATOMIC(size_bytes);
    if (obj == NULL)
        return NULL;
    memset(obj, 0, size_bytes); /* GC_MALLOC_ATOMIC leaves that to its caller */
    *obj = (object){kind, number};
    unregister_finalizer(obj);
    gcfuzz_placed(size_bytes, true, 0);
    count(size_bytes);
    return obj;
}

static void *allocate_node(int64_t number, bool nonmovable)
{
    (void)nonmovable; /* nothing ever moves */
    return allocate(NODE, number, sizeof(object) + NODE_REFERENCES * WORD_BYTES, true);
}

static void *allocate_array(uint64_t length, bool nonmovable)
{
    (void)nonmovable;
#ifdef BUG_POINTER_FREE_ARRAY /* it has no references yet, but it will */
    return allocate(ARRAY, (int64_t)length, sizeof(object) + length * WORD_BYTES, false);
#endif
    return allocate(ARRAY, (int64_t)length, sizeof(object) + length * WORD_BYTES, true);
}

static void *allocate_string(uint64_t length, bool nonmovable)
{
    (void)nonmovable;
    return allocate(STRING, (int64_t)length, sizeof(object) + length, false);
}

static unsigned char *contents(void *string)
{
    return (unsigned char *)((object *)string)->references;
}

/* ---- The rest of what the kit asks ---- */

static const char *const OBSERVES[] = {"samples", "minors", "size", "outside", "value", "graph",
                                       "finalized", NULL};

static void start(const int64_t *values, gcfuzz_contract *contract)
{
    (void)values; /* there are no settings */
    period_bytes = 0;
    pending.count = 0;
    traces++;
    *contract = (gcfuzz_contract){
        .nursery_bytes = 4096, /* there is none: large_object_bytes says so */
        .node = {NODE, sizeof(object) + NODE_REFERENCES * WORD_BYTES, 0},
        .array = {ARRAY, sizeof(object), WORD_BYTES},
        .string = {STRING, sizeof(object), 1},
        .word_bytes = WORD_BYTES,
        .large_object_bytes = 1,
        .object_bytes_max = 65536,
        .sampling = {.minimum_bytes = 64, .maximum_bytes = 1 << 20, .multiple_bytes = 8,
                     .drops_when_disabled = true},
        /* gc.h: "Finalization is performed in topological order"; no call is promised. */
        .finalizers = {.within = 0, .registrations = "one_at_a_time",
                       .order = "referrer_first", .cycles = "never"},
        .observes = OBSERVES,
    };
}

static void describe(const void *described, gcfuzz_description *description)
{
    const object *obj = described;
    if (obj->kind < NODE || obj->kind > STRING) {
        gcfuzz_failed("DanglingReferenceError: a reference leads to no object");
        return;
    }
    description->type_index = obj->kind;
    description->number = obj->number;
    if (obj->kind != STRING)
        description->references = obj->kind == NODE ? NODE_REFERENCES : (uint64_t)obj->number;
}

static void *read_reference(void *obj, uint64_t field)
{
    return ((object *)obj)->references[field];
}

static void write_reference(void *obj, uint64_t field, void *value)
{
    ((object *)obj)->references[field] = value;
}

static void write_number(void *node, int64_t number)
{
    ((object *)node)->number = number;
}

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

static const gcfuzz_adapter ADAPTER = {
    .start = start,
    .describe = describe,
    .allocate_node = allocate_node,
    .allocate_string = allocate_string,
    .contents = contents,
    .allocate_array = allocate_array,
    .read = read_reference,
    .write = write_reference,
    .write_number = write_number,
    .register_finalizer = register_finalizer,
    .unregister_finalizer = unregister_finalizer,
    .run_finalizers = run_finalizers,
    .collect_full = GC_gcollect,
    .enable_sampling = enable_sampling,
    .disable_sampling = disable_sampling,
};

int main(void)
{
    GC_INIT();
    push_stacks = GC_get_push_other_roots();
    GC_set_push_other_roots(push_roots);
    GC_set_on_collection_event(happened);
    return gcfuzz_serve(&ADAPTER);
}
