/* An adapter that has every callback and says on standard error which was called, and with what.
 *
 * Its heap has one immortal node and one immortal array; what is allocated is never freed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gcfuzz_adapter.h"

enum { NODE = 1, WEAKREF, ARRAY, STRING, EPHEMERON, PREBUILT_LENGTH = 2, CHARACTER_BYTES = 2 };

typedef struct {
    uint32_t kind;
    int64_t number;
    uint64_t reference_count;
    void *references[64];
} object;

#define SAY(...) fprintf(stderr, __VA_ARGS__)

static object *made(uint32_t kind, int64_t number, uint64_t reference_count)
{
    object *obj = calloc(1, sizeof *obj);
    if (obj == NULL)
        abort();
    *obj = (object){.kind = kind, .number = number, .reference_count = reference_count};
    gcfuzz_placed(8, true, 0);
    return obj;
}

static const gcfuzz_setting SETTINGS[] = {{"size", 1, 1, 9, 1, NULL}, {"most", 1, 1, 9, 1, "size"}};
static const char *const OBSERVES[] = {"size", "outside", "value", "alive", "identity", "graph",
                                       "minors", "order", "reports", "finalized", "samples", "at",
                                       "free", "limit", "top", "sample_point", "state", "memory",
                                       NULL};
static object *immortal[2];

static void start(const int64_t *values, gcfuzz_contract *contract)
{
    (void)values;
    immortal[0] = made(NODE, 0, 2);
    immortal[1] = made(ARRAY, PREBUILT_LENGTH, PREBUILT_LENGTH);
    *contract = (gcfuzz_contract){
        .nursery_bytes = 64,
        .node = {NODE, 8, 0},
        .weakref = {WEAKREF, 8, 0},
        .array = {ARRAY, 8, 8},
        .string = {STRING, 8, CHARACTER_BYTES},
        .ephemeron = {EPHEMERON, 16, 0},
        .word_bytes = 8,
        .large_object_bytes = 1,
        .object_bytes_max = 128,
        .sampling = {.minimum_bytes = 8, .maximum_bytes = 64, .crosses = "beyond",
                     .surplus = "carried", .samples_per_allocation = "all", .distances = "period",
                     .pinning = "allowed", .reports_when_disabled = true},
        .finalizers = {.within = 2, .called = "in_collection", .within_collections = 3,
                       .registrations = "any", .unregistering = "all",
                       .order = "reverse_registration", .cycles = "any", .weak = "cleared_after",
                       .weak_in_dead = "cleared", .again = "new_place", .taken_back = "dropped",
                       .objects = "kept", .ephemerons = "attached"},
        .observes = OBSERVES,
        .promises_collections = true,
        .promises_memory = true,
        .promises_progress = true,
        .promises_pressure = true,
        .old_space = {.threshold_bytes = 4096},
        .limits_survivors = true,
        .survivor_bytes = 32,
        .dead_within = 1,
        .steps = "minor",
        .version = "all 1.0",
        .ignores_nonmovable = true,
        .fresh_process = true,
        .pins_max = 1,
        .prebuilt_nodes = 1,
        .prebuilt_arrays = 1,
        .prebuilt_array_length = PREBUILT_LENGTH,
    };
}

static void describe(const void *described, gcfuzz_description *description)
{
    const object *obj = described;
    *description = (gcfuzz_description){obj->kind, obj->number, obj->reference_count};
}

static void *allocate_node(int64_t number, bool nonmovable)
{
    SAY("allocate_node %" PRId64 " %d\n", number, nonmovable);
    return made(NODE, number, 2);
}

static void *allocate_string(uint64_t length, bool nonmovable)
{
    SAY("allocate_string %" PRIu64 " %d\n", length, nonmovable);
    return made(STRING, (int64_t)length, 0);
}

static void *allocate_array(uint64_t length, bool nonmovable)
{
    SAY("allocate_array %" PRIu64 " %d\n", length, nonmovable);
    return made(ARRAY, (int64_t)length, length);
}

/* Only the newest weak reference leads to its object. */
static object *weak, *weak_target;

static void *allocate_weakref(void *const *target)
{
    SAY("allocate_weakref of %" PRId64 "\n", ((object *)*target)->number);
    weak_target = *target;
    return weak = made(WEAKREF, 0, 0);
}

static void *allocate_ephemeron(void *const *key, void *const *value)
{
    SAY("allocate_ephemeron of %" PRId64 ", %" PRId64 "\n", ((object *)*key)->number,
        ((object *)*value)->number);
    object *pair = made(EPHEMERON, 0, 0);
    pair->references[0] = *value;
    return pair;
}

static void *allocate_old_string(uint64_t length)
{
    SAY("allocate_old_string %" PRIu64 "\n", length);
    return made(STRING, (int64_t)length, 0);
}

static void *prebuilt(uint64_t index) { return immortal[index]; }

static void *read_reference(void *obj, uint64_t field)
{
    return ((object *)obj)->references[field];
}

static void write_reference(void *obj, uint64_t field, void *value)
{
    ((object *)obj)->references[field] = value;
}

static void write_number(void *node, int64_t number) { ((object *)node)->number = number; }

static void *follow_weakref(void *weakref) { return weakref == weak ? weak_target : NULL; }

static void *read_ephemeron(void *pair) { return ((object *)pair)->references[0]; }

static void copy_array(void *source, void *dest, uint64_t source_start, uint64_t dest_start,
                       uint64_t length)
{
    SAY("copy_array %" PRId64 " to %" PRId64 ", %" PRIu64 " to %" PRIu64 ", %" PRIu64 "\n",
        ((object *)source)->number, ((object *)dest)->number, source_start, dest_start, length);
}

static void fill_array(void *array, void *value)
{
    SAY("fill_array %" PRId64 " with %" PRId64 "\n", ((object *)array)->number,
        value == NULL ? -1 : ((object *)value)->number);
}

static void move_array(void *array, uint64_t source_start, uint64_t dest_start, uint64_t length)
{
    SAY("move_array %" PRId64 ", %" PRIu64 " to %" PRIu64 ", %" PRIu64 "\n",
        ((object *)array)->number, source_start, dest_start, length);
}

static uint64_t take_identity(void *obj) { return (uint64_t)((object *)obj)->number + 100; }
static void pin(void *string) { SAY("pin %" PRId64 "\n", ((object *)string)->number); }

/* The tenth byte of a string is lost, if there is one. */
static void unpin(void *string)
{
    object *obj = string;
    SAY("unpin %" PRId64 "\n", obj->number);
    if (CHARACTER_BYTES * obj->number > 9)
        ((unsigned char *)obj->references)[9] = 0;
}

static object *finalizable;

static void register_finalizer(void *const *node, int64_t number)
{
    finalizable = *node;
    SAY("register_finalizer %" PRId64 " of %" PRId64 "\n", number, finalizable->number);
}

static void unregister_finalizer(void *node)
{
    SAY("unregister_finalizer of %" PRId64 "\n", ((object *)node)->number);
}

static void run_finalizers(void)
{
    gcfuzz_finalized(11, finalizable);
    gcfuzz_finalized(10, finalizable);
}

static void set_callback(int64_t length) { SAY("set_callback %" PRId64 "\n", length); }
static void add_memory_pressure(uint64_t bytes) { SAY("add_memory_pressure %" PRIu64 "\n", bytes); }
static void collect_minor(void) { SAY("collect_minor\n"); }
static void collect_progress(void) { SAY("collect_progress\n"); }
static void collect_step(void) { SAY("collect_step\n"); }

static void collect_full(void)
{
    for (int collections = 0; collections < 2; collections++) {
        gcfuzz_collected();
        gcfuzz_report_begins(1, 2, 3);
        gcfuzz_reported(STRING, true, false);
        gcfuzz_reported(NODE, false, true);
    }
    gcfuzz_memory(5, 6);
}

static void after(void) { gcfuzz_state(2); }

static void pointers(gcfuzz_pointers *found)
{
    *found = (gcfuzz_pointers){.free = 1, .limit = 2, .top = 3};
}

static void enable_sampling(uint64_t period) { SAY("enable_sampling %" PRIu64 "\n", period); }
static void disable_sampling(bool report) { SAY("disable_sampling %d\n", report); }
static void pause_sampling(void) { SAY("pause_sampling\n"); }
static void resume_sampling(void) { SAY("resume_sampling\n"); }
static void fork_here(void) { SAY("fork\n"); }
static unsigned char *contents(void *string) { return (void *)((object *)string)->references; }

static const gcfuzz_adapter ADAPTER = {
    .settings = SETTINGS,
    .setting_count = 2,
    .start = start,
    .after = after,
    .pointers = pointers,
    .describe = describe,
    .allocate_node = allocate_node,
    .allocate_string = allocate_string,
    .allocate_array = allocate_array,
    .allocate_weakref = allocate_weakref,
    .allocate_ephemeron = allocate_ephemeron,
    .allocate_old_string = allocate_old_string,
    .prebuilt = prebuilt,
    .read = read_reference,
    .write = write_reference,
    .write_number = write_number,
    .follow_weakref = follow_weakref,
    .read_ephemeron = read_ephemeron,
    .copy_array = copy_array,
    .fill_array = fill_array,
    .move_array = move_array,
    .take_identity = take_identity,
    .pin = pin,
    .unpin = unpin,
    .register_finalizer = register_finalizer,
    .unregister_finalizer = unregister_finalizer,
    .run_finalizers = run_finalizers,
    .set_callback = set_callback,
    .add_memory_pressure = add_memory_pressure,
    .collect_minor = collect_minor,
    .collect_progress = collect_progress,
    .collect_step = collect_step,
    .collect_full = collect_full,
    .enable_sampling = enable_sampling,
    .disable_sampling = disable_sampling,
    .pause_sampling = pause_sampling,
    .resume_sampling = resume_sampling,
    .fork = fork_here,
    .contents = contents,
};

int main(void)
{
    return gcfuzz_serve(&ADAPTER);
}
