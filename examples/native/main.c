/* The collector of this folder behind gcfuzz's adapter kit: what it promises, and who does what.
 *
 * Nothing here decides anything. An object of the kit is an `object` of the collector, and the
 * kit's roots are the collector's.
 */
#include "collector.h"
#include "gcfuzz_adapter.h"
#include "sampling.h"

enum setting { NURSERY_BYTES, LARGE_OBJECT_BYTES, SETTING_COUNT };

static const gcfuzz_setting SETTINGS[SETTING_COUNT] = {
    [NURSERY_BYTES] = {.name = "nursery_bytes", .initial = 256, .minimum = 64, .maximum = 65536,
                       .multiple = WORD_BYTES},
    [LARGE_OBJECT_BYTES] = {.name = "large_object_bytes", .initial = 64, .minimum = 17,
                            .maximum = 65536, .at_most = "nursery_bytes"},
};

static const char *const OBSERVES[] = {
    "samples", "minors", "order", "size", "outside", "at", "value", "alive", "identity", "reports",
    "graph", "free", "limit", "top", "sample_point", NULL,
};

static const gcfuzz_contract CONTRACT = {
    .node = {KIND_NODE, 32, 0},
    .weakref = {KIND_WEAKREF, 16, 0},
    .array = {KIND_ARRAY, 16, 8},
    .string = {KIND_STRING, 17, 1},
    .word_bytes = WORD_BYTES,
    .object_bytes_max = OBJECT_BYTES_MAX,
    .sampling = {.minimum_bytes = 8, .maximum_bytes = 1ull << 40, .multiple_bytes = 8,
                 .drops_when_disabled = true, .reports_when_disabled = true},
    .observes = OBSERVES,
    .promises_collections = true,
};

/* ---- What the collector tells ---- */

static void visit_roots(void (*visit)(object **root))
{
    for (size_t slot = 0; slot < gcfuzz_roots.count; slot++) {
        object *root = gcfuzz_roots.slots[slot];
        visit(&root);
        gcfuzz_roots.slots[slot] = root;
    }
}

static void report_begins(void)
{
    gcfuzz_report_begins(gc.outside_bytes, gc.outside_bytes, 0);
}

static void reported(const object *sampled, bool survived)
{
    gcfuzz_reported(sampled->kind, sampled->flags & FLAG_OUTSIDE, survived);
}

/* ---- What the kit asks ---- */

static void start(const int64_t *values, gcfuzz_contract *contract)
{
    const collector_events events = {visit_roots, gcfuzz_collected, gcfuzz_sampled, report_begins,
                                     reported};
    gc_start((size_t)values[NURSERY_BYTES], (size_t)values[LARGE_OBJECT_BYTES], events);
    *contract = CONTRACT;
    contract->nursery_bytes = (uint64_t)values[NURSERY_BYTES];
    contract->large_object_bytes = (uint64_t)values[LARGE_OBJECT_BYTES];
}

/* What dead memory is filled with is no kind: a reference that a collection has missed shows. */
static void describe(const void *described, gcfuzz_description *description)
{
    const object *obj = described;
    if (obj->kind < KIND_NODE || obj->kind > KIND_STRING || obj->flags & FLAG_FORWARDED) {
        gcfuzz_failed("DanglingReferenceError: a reference leads to no object");
        return;
    }
    description->type_index = obj->kind;
    description->number = obj->kind == KIND_WEAKREF ? 0 : obj->number;
    description->references = gc_reference_count(obj);
}

static void tell_pointers(gcfuzz_pointers *pointers)
{
    pointers->free = (int64_t)(gc.nursery_free - gc.nursery_start);
    pointers->limit = (int64_t)(gc.nursery_limit - gc.nursery_start);
    pointers->top = (int64_t)(gc.nursery_top - gc.nursery_start);
    pointers->is_sampling = sampling.period_bytes != 0;
    pointers->sample_point = (int64_t)(sampling.sample_point - gc.nursery_start);
}

/* Say where the new object is, and what it took: in the nursery, all that lies behind it. */
static void *placed(object *obj)
{
    uintptr_t address = (uintptr_t)obj;
    if (obj->flags & FLAG_OUTSIDE)
        gcfuzz_placed(gc_object_bytes(obj), true, 0);
    else
        gcfuzz_placed(gc.nursery_free - address, false, (int64_t)(address - gc.nursery_start));
    return obj;
}

static void *allocate_node(int64_t number, bool nonmovable)
{
    return placed(gc_allocate_node(number, nonmovable));
}

static void *allocate_string(uint64_t length, bool nonmovable)
{
    return placed(gc_allocate_string(length, nonmovable));
}

static void *allocate_array(uint64_t length, bool nonmovable)
{
    return placed(gc_allocate_array(length, nonmovable));
}

static void *allocate_weakref(void *const *target)
{
    return placed(gc_allocate_weakref(target));
}

static void *allocate_old_string(uint64_t length)
{
    return placed(gc_allocate_old_string(length));
}

static void *read_reference(void *obj, uint64_t field)
{
    return ((object *)obj)->references[field];
}

static void write_reference(void *obj, uint64_t field, void *value)
{
    gc_write(obj, field, value);
}

static unsigned char *contents(void *string)
{
    return (unsigned char *)((object *)string)->references;
}

static void write_number(void *node, int64_t number)
{
    ((object *)node)->number = number;
}

static void *follow_weakref(void *weakref)
{
    return ((object *)weakref)->target;
}

static void copy_array(void *source, void *dest, uint64_t source_start, uint64_t dest_start,
                       uint64_t length)
{
    gc_copy_array(source, dest, source_start, dest_start, length);
}

static uint64_t take_identity(void *obj)
{
    return gc_identity(obj);
}

/* Pending samples are reported by a minor collection, or dropped. */
static void disable_sampling(bool report)
{
    if (report)
        gc_collect_minor();
    sampling_disable();
}

static const gcfuzz_adapter ADAPTER = {
    .settings = SETTINGS,
    .setting_count = SETTING_COUNT,
    .start = start,
    .describe = describe,
    .pointers = tell_pointers,
    .allocate_node = allocate_node,
    .allocate_string = allocate_string,
    .allocate_array = allocate_array,
    .allocate_weakref = allocate_weakref,
    .allocate_old_string = allocate_old_string,
    .read = read_reference,
    .write = write_reference,
    .write_number = write_number,
    .follow_weakref = follow_weakref,
    .copy_array = copy_array,
    .take_identity = take_identity,
    .collect_minor = gc_collect_minor,
    .collect_progress = gc_collect_progress,
    .collect_full = gc_collect_full,
    .enable_sampling = sampling_enable,
    .disable_sampling = disable_sampling,
    .pause_sampling = sampling_pause,
    .resume_sampling = sampling_resume,
    .fork = sampling_after_fork,
    .contents = contents,
};

int main(void)
{
    int exit_code = gcfuzz_serve(&ADAPTER);
    gc_stop();
    return exit_code;
}
