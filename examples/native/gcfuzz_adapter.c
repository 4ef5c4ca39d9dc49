/* The adapter kit: lines in, actions out to the callbacks, answers back. See gcfuzz_adapter.h.
 *
 * Invariant: every line gets exactly one answer, in order, and nothing that stands in a line can
 * make this program do what C leaves undefined. Answers are collected, and written before more
 * input is waited for, so that many lines that were sent ahead cost one write.
 */
#define _POSIX_C_SOURCE 200809L

#include "gcfuzz_adapter.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    VERSION = 2,
    LINE_BYTES_MAX = 1 << 20,
    READ_BYTES = 1 << 16,
    DEPTH_MAX = 32, /* of brackets in a value that means nothing to us */
    PROBLEM_BYTES = 200,
    SETTINGS_MAX = 32,
};

gcfuzz_root_list gcfuzz_roots, gcfuzz_kept;

static const gcfuzz_adapter *adapter;
static gcfuzz_contract contract;
static bool is_started;

/* ---- Memory that grows ---- */

/* Room for `count` items. What cannot be had ends the program: nothing useful could follow. */
static void *with_room(void *items, size_t *capacity, size_t count, size_t item_bytes)
{
    if (count <= *capacity)
        return items;
    size_t wanted = *capacity < 16 ? 16 : *capacity;
    while (wanted < count && wanted <= SIZE_MAX / 4)
        wanted *= 2;
    void *grown = wanted < count || wanted > SIZE_MAX / item_bytes
                      ? NULL
                      : realloc(items, wanted * item_bytes);
    if (grown == NULL) {
        fputs("gcfuzz_adapter: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    *capacity = wanted;
    return grown;
}

typedef struct {
    char *bytes;
    size_t count, capacity;
} text;

__attribute__((format(printf, 2, 0))) static void append_list(text *to, const char *format,
                                                               va_list values)
{
    va_list again;
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0)
        abort();
    size_t room = (size_t)length + 1; /* vsnprintf ends with a zero, which the next text covers */
    to->bytes = with_room(to->bytes, &to->capacity, to->count + room, 1);
    vsnprintf(to->bytes + to->count, room, format, values);
    to->count += (size_t)length;
}

__attribute__((format(printf, 2, 3))) static void append(text *to, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    append_list(to, format, values);
    va_end(values);
}

static void append_string(text *to, const char *string)
{
    append(to, "\"");
    for (const char *each = string; *each; each++) {
        unsigned char byte = (unsigned char)*each;
        if (byte < 0x20 || byte > 0x7e)
            append(to, "\\u%04x", byte);
        else
            append(to, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    append(to, "\"");
}

/* ---- What was answered, until it is written ---- */

static text answers;
static int answers_to = STDOUT_FILENO;

/* Standard output belongs to the protocol, and what a collector prints comes late if stdio keeps it
 * back: it would end up behind the answers of a later trace. It goes to standard error instead. */
static bool keep_standard_output(void)
{
    answers_to = dup(STDOUT_FILENO);
    return answers_to >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
}

static void write_answers(void)
{
    size_t done = 0;
    while (done < answers.count) {
        ssize_t written = write(answers_to, answers.bytes + done, answers.count - done);
        if (written < 0 && errno != EINTR)
            break; /* Nobody listens any more. */
        done += written > 0 ? (size_t)written : 0;
    }
    answers.count = 0;
}

/* ---- The observation that is being made ---- */

typedef struct {
    text order, reports, graph, finalized, contents;
    uint64_t samples, minors;
    size_t reported; /* entries of the last report */
    bool is_placed, is_outside, has_value, has_alive, is_alive, has_identity, has_graph,
        has_contents, has_memory, has_state;
    uint64_t size_bytes, identity, used_bytes, arena_bytes, state;
    int64_t at, value;
    char error[PROBLEM_BYTES];
} observation;

static observation seen;

static void observe_nothing(void)
{
    text order = seen.order, reports = seen.reports, graph = seen.graph;
    text finalized = seen.finalized, contents = seen.contents;
    order.count = reports.count = graph.count = finalized.count = contents.count = 0;
    seen = (observation){.order = order, .reports = reports, .graph = graph,
                         .finalized = finalized, .contents = contents};
}

void gcfuzz_failed(const char *format, ...)
{
    if (seen.error[0])
        return; /* What went wrong first explains what came after it. */
    va_list values;
    va_start(values, format);
    vsnprintf(seen.error, sizeof seen.error, format, values);
    va_end(values);
}

void gcfuzz_sampled(void)
{
    seen.samples++;
    append(&seen.order, "s");
}

void gcfuzz_collected(void)
{
    seen.minors++;
    append(&seen.order, "M");
}

void gcfuzz_report_begins(uint64_t memory_used_bytes, uint64_t arena_bytes, uint64_t major_state)
{
    append(&seen.order, "R");
    /* The report before this one, if any, lacks its end. */
    append(&seen.reports, "%s{\"memory_used_bytes\": %llu, \"arena_bytes\": %llu, "
           "\"major_state\": %llu, \"entries\": [", seen.reports.count ? "]}, " : "",
           (unsigned long long)memory_used_bytes, (unsigned long long)arena_bytes,
           (unsigned long long)major_state);
    seen.reported = 0;
}

void gcfuzz_reported(uint32_t type_index, bool outside, bool survived)
{
    unsigned long long entry = (unsigned long long)type_index << 2 | outside << 1 | survived;
    append(&seen.reports, "%s%llu", seen.reported++ ? ", " : "", entry);
}

void gcfuzz_placed(uint64_t size_bytes, bool outside, int64_t at)
{
    seen.is_placed = true;
    seen.size_bytes = size_bytes;
    seen.is_outside = outside;
    seen.at = at;
}

void gcfuzz_memory(uint64_t used_bytes, uint64_t arena_bytes)
{
    seen.has_memory = true;
    seen.used_bytes = used_bytes;
    seen.arena_bytes = arena_bytes;
}

void gcfuzz_state(uint64_t state)
{
    seen.has_state = true;
    seen.state = state;
}

/* Whether the contract promises that field. The kit answers for contents by itself. */
static bool observes(const char *name)
{
    if (adapter->contents && strcmp(name, "contents") == 0)
        return true;
    for (const char *const *field = contract.observes; field && *field; field++)
        if (strcmp(*field, name) == 0)
            return true;
    return false;
}

/* ---- Roots and the walk ---- */

static void add_to(gcfuzz_root_list *roots, void *object)
{
    roots->slots =
        with_room(roots->slots, &roots->capacity, roots->count + 1, sizeof *roots->slots);
    roots->slots[roots->count++] = object;
}

static void add_root(void *object)
{
    add_to(&gcfuzz_roots, object);
}

/* A new object, unless the collector failed to make it. */
static void add_allocated(void *object)
{
    if (object != NULL)
        add_root(object);
    else
        gcfuzz_failed("AllocationError: there is no new object");
}

static gcfuzz_description describe(const void *object)
{
    gcfuzz_description description = {0};
    adapter->describe(object, &description);
    return description;
}

typedef struct {
    void **objects;
    size_t count, capacity;
} object_queue;

/* The row of `object`, which is queued if it is new. Heaps under test are small: a search from
 * the start is cheaper than any table. */
static size_t row_of(object_queue *queue, void *object)
{
    for (size_t row = 0; row < queue->count; row++)
        if (queue->objects[row] == object)
            return row;
    queue->objects = with_room(queue->objects, &queue->capacity, queue->count + 1,
                               sizeof *queue->objects);
    queue->objects[queue->count] = object;
    return queue->count++;
}

static void append_row(text *graph, object_queue *queue, void *object)
{
    gcfuzz_description description = describe(object);
    append(graph, "[%u, %lld", description.type_index, (long long)description.number);
    for (uint64_t field = 0; field < description.references && !seen.error[0]; field++) {
        void *found = adapter->read(object, field);
        if (found != NULL)
            append(graph, ", %llu, %zu", (unsigned long long)field, row_of(queue, found));
    }
    append(graph, "]");
}

/* The roots and then the immortal objects, from which a walk goes on breadth first. */
static void queue_roots(object_queue *queue)
{
    queue->count = 0;
    for (size_t slot = 0; slot < gcfuzz_roots.count; slot++)
        row_of(queue, gcfuzz_roots.slots[slot]);
    for (uint64_t i = 0; i < contract.prebuilt_nodes + contract.prebuilt_arrays; i++)
        row_of(queue, adapter->prebuilt(i));
}

/* Everything reachable. */
static void walk(void)
{
    static object_queue queue;
    queue_roots(&queue);
    seen.has_graph = true;
    for (size_t row = 0; row < queue.count && !seen.error[0]; row++) {
        append(&seen.graph, row ? ", " : "");
        append_row(&seen.graph, &queue, queue.objects[row]);
    }
}

/* ---- What strings contain ---- */

enum { NUMBER_BYTES = 8, SHOWN_BYTES = 16 };

static uint64_t string_count; /* since the header; a string's number is this when it is new */

/* The byte at that offset of the string with that number: docs/protocol.md, contents. */
static unsigned char byte_of(uint64_t number, uint64_t offset)
{
    if (offset < NUMBER_BYTES)
        return (unsigned char)(number >> 8 * offset);
    uint32_t place = (uint32_t)((number * 40503 + offset) % 65536);
    return (unsigned char)(place * 2654435761u >> 24);
}

/* A new string, unless the collector failed to make it. */
static void add_string(void *string, uint64_t length)
{
    add_allocated(string);
    if (string == NULL || adapter->contents == NULL)
        return;
    unsigned char *contents = adapter->contents(string);
    uint64_t count = length * contract.string.item_bytes;
    string_count++;
    for (uint64_t offset = 0; offset < count; offset++)
        contents[offset] = byte_of(string_count, offset);
}

/* The row that answers for a string: its number, and what is wrong with the bytes after it. */
static void append_contents_of(text *to, const unsigned char *contents, uint64_t count)
{
    uint64_t number = 0, offset;
    for (offset = 0; offset < count && offset < NUMBER_BYTES; offset++)
        number |= (uint64_t)contents[offset] << 8 * offset;
    append(to, "%s[%llu", to->count ? ", " : "", (unsigned long long)number);
    while (offset < count && contents[offset] == byte_of(number, offset))
        offset++;
    if (offset < count)
        append(to, ", %llu", (unsigned long long)offset);
    for (uint64_t shown = 0; offset < count && shown < SHOWN_BYTES; shown++)
        append(to, ", %u", contents[offset++]);
    append(to, "]");
}

static void compare_contents(void)
{
    static object_queue queue;
    queue_roots(&queue);
    seen.has_contents = true;
    for (size_t row = 0; row < queue.count && !seen.error[0]; row++) {
        void *object = queue.objects[row];
        gcfuzz_description description = describe(object);
        for (uint64_t field = 0; field < description.references && !seen.error[0]; field++) {
            void *found = adapter->read(object, field);
            if (found != NULL)
                row_of(&queue, found);
        }
        if (!seen.error[0] && description.type_index == contract.string.type_index)
            append_contents_of(&seen.contents, adapter->contents(queue.objects[row]),
                               (uint64_t)description.number * contract.string.item_bytes);
    }
}

/* ---- Objects that were finalized ---- */

static struct {
    int64_t *numbers; /* of the finalizers of gcfuzz_kept */
    size_t capacity;
    bool is_wanted;
} kept;

void gcfuzz_finalized(int64_t number, void *node)
{
    append(&seen.finalized, "%s%lld", seen.finalized.count ? ", " : "", (long long)number);
    if (!kept.is_wanted)
        return;
    kept.numbers =
        with_room(kept.numbers, &kept.capacity, gcfuzz_kept.count + 1, sizeof *kept.numbers);
    kept.numbers[gcfuzz_kept.count] = number;
    add_to(&gcfuzz_kept, node);
}

/* Whether an object is alive when its finalizer is called, so that it can be resurrected. */
static bool keeps_finalized(void)
{
    const char *promised = contract.finalizers.objects;
    return promised == NULL || strcmp(promised, "dead") != 0;
}

/* ---- Arguments ---- */

enum key {
    NUMBER, LENGTH, ROOT, FIELD, VALUE, SOURCE, DEST, SOURCE_START, DEST_START, INDEX, EXTRA_BYTES,
    PERIOD_BYTES, KEY, NONMOVABLE, REPORT, KEEP, KEY_COUNT
};

static const char *const KEYS[KEY_COUNT] = {
    "number", "length", "root", "field", "value", "source", "dest", "source_start", "dest_start",
    "index", "extra_bytes", "period_bytes", "key", "nonmovable", "report", "keep",
};

#define BIT(key) (1u << (key))
#define IS_FLAG(key) ((key) >= NONMOVABLE) /* true or false, and may be missing */
#define SLOTS (BIT(ROOT) | BIT(SOURCE) | BIT(DEST) | BIT(VALUE) | BIT(KEY))

/* One line: the arguments of an action, or a header and its settings. */
typedef struct {
    int64_t values[KEY_COUNT];
    unsigned given, null; /* a bit a key */
    char action[32];
    char unknown[32]; /* a key that no action has */
    int64_t version;
    bool is_header;
    int64_t config[SETTINGS_MAX];
    char problem[PROBLEM_BYTES];
} line;

static void *object_in(const line *arguments, enum key key)
{
    if (arguments->null & BIT(key))
        return NULL;
    return gcfuzz_roots.slots[arguments->values[key]];
}

static uint64_t natural(const line *arguments, enum key key)
{
    return (uint64_t)arguments->values[key];
}

/* ---- What is legal: all that the collector need not check ---- */

static bool is_kind(const gcfuzz_description *description, const gcfuzz_kind *kind)
{
    return kind->fixed_bytes && description->type_index == kind->type_index;
}

static bool is_length(const gcfuzz_kind *kind, int64_t length)
{
    if (length < 0 || kind->fixed_bytes > contract.object_bytes_max)
        return false;
    uint64_t most = kind->item_bytes
                        ? (contract.object_bytes_max - kind->fixed_bytes) / kind->item_bytes
                        : 0;
    return (uint64_t)length <= most;
}

static bool is_period(int64_t period_bytes)
{
    const gcfuzz_sampling *rule = &contract.sampling;
    return period_bytes > 0 && (uint64_t)period_bytes >= rule->minimum_bytes &&
           (uint64_t)period_bytes <= rule->maximum_bytes &&
           (rule->multiple_bytes == 0 || (uint64_t)period_bytes % rule->multiple_bytes == 0);
}

static bool is_range(int64_t start, int64_t length, uint64_t count)
{
    return start >= 0 && length > 0 && (uint64_t)start <= count &&
           (uint64_t)length <= count - (uint64_t)start;
}

static bool need(bool is_legal, const char *what)
{
    if (!is_legal)
        gcfuzz_failed("IllegalAction: %s", what);
    return is_legal;
}

static bool need_kind(void *object, const gcfuzz_kind *kind, const char *what)
{
    gcfuzz_description description = describe(object);
    return !seen.error[0] && need(is_kind(&description, kind), what);
}

static bool need_field(void *object, int64_t field)
{
    gcfuzz_description description = describe(object);
    return !seen.error[0] &&
           need(is_range(field, 1, description.references), "the object has no such field");
}

static bool need_items(void *array, int64_t start, int64_t length)
{
    return need_kind(array, &contract.array, "copied is between arrays") &&
           need(is_range(start, length, describe(array).references), "not a range of the array");
}

static bool need_length(const line *arguments, const gcfuzz_kind *kind)
{
    return need(kind->fixed_bytes && is_length(kind, arguments->values[LENGTH]),
                "the contract has no object of this length");
}

/* ---- Actions, one function each ---- */

static void do_allocate_node(const line *arguments)
{
    add_allocated(adapter->allocate_node(arguments->values[NUMBER],
                                         arguments->values[NONMOVABLE]));
}

static void do_allocate_string(const line *arguments)
{
    if (need_length(arguments, &contract.string))
        add_string(adapter->allocate_string(natural(arguments, LENGTH),
                                            arguments->values[NONMOVABLE]),
                   natural(arguments, LENGTH));
}

static void do_allocate_array(const line *arguments)
{
    if (need_length(arguments, &contract.array))
        add_allocated(adapter->allocate_array(natural(arguments, LENGTH),
                                              arguments->values[NONMOVABLE]));
}

static void do_allocate_weakref(const line *arguments)
{
    add_allocated(adapter->allocate_weakref(&gcfuzz_roots.slots[arguments->values[ROOT]]));
}

static void do_allocate_ephemeron(const line *arguments)
{
    void *const *slots = gcfuzz_roots.slots;
    if (need(!(arguments->null & BIT(VALUE)), "value must not be null"))
        add_allocated(adapter->allocate_ephemeron(&slots[arguments->values[KEY]],
                                                  &slots[arguments->values[VALUE]]));
}

static void do_allocate_old_string(const line *arguments)
{
    if (need_length(arguments, &contract.string))
        add_string(adapter->allocate_old_string(natural(arguments, LENGTH)),
                   natural(arguments, LENGTH));
}

static void do_load_prebuilt(const line *arguments)
{
    uint64_t count = contract.prebuilt_nodes + contract.prebuilt_arrays;
    if (need(natural(arguments, INDEX) < count, "there is no such immortal object"))
        add_root(adapter->prebuilt(natural(arguments, INDEX)));
}

static void do_free(const line *arguments)
{
    gcfuzz_root_list *roots = &gcfuzz_roots;
    void **slot = roots->slots + arguments->values[ROOT];
    roots->count--;
    memmove(slot, slot + 1, (size_t)(roots->slots + roots->count - slot) * sizeof *slot);
}

static void do_read(const line *arguments)
{
    void *object = object_in(arguments, ROOT);
    if (!need_field(object, arguments->values[FIELD]))
        return;
    void *found = adapter->read(object, natural(arguments, FIELD));
    if (found == NULL)
        return;
    add_root(found);
    while (gcfuzz_roots.slots[seen.value] != found)
        seen.value++;
    seen.has_value = true;
}

static void do_read_number(const line *arguments)
{
    seen.value = describe(object_in(arguments, ROOT)).number;
    seen.has_value = true;
}

static void do_read_weakref(const line *arguments)
{
    void *weakref = object_in(arguments, ROOT);
    if (!need_kind(weakref, &contract.weakref, "not a weak reference"))
        return;
    bool is_kept = arguments->values[KEEP];
    if (!need(!is_kept || adapter->follow_weakref, "nothing is kept"))
        return;
    void *found = adapter->follow_weakref ? adapter->follow_weakref(weakref) : NULL;
    seen.is_alive = adapter->follow_weakref ? found != NULL : adapter->read_weakref(weakref);
    seen.has_alive = true;
    if (is_kept)
        add_root(found ? found : weakref);
}

static void do_read_ephemeron(const line *arguments)
{
    void *ephemeron = object_in(arguments, ROOT);
    if (!need_kind(ephemeron, &contract.ephemeron, "not an ephemeron"))
        return;
    void *value = adapter->read_ephemeron(ephemeron);
    if (value == NULL)
        return;
    seen.value = describe(value).number;
    seen.has_value = true;
}

static void do_write(const line *arguments)
{
    void *object = object_in(arguments, ROOT);
    if (need_field(object, arguments->values[FIELD]))
        adapter->write(object, natural(arguments, FIELD), object_in(arguments, VALUE));
}

static void do_write_number(const line *arguments)
{
    void *node = object_in(arguments, ROOT);
    if (need_kind(node, &contract.node, "not a node"))
        adapter->write_number(node, arguments->values[NUMBER]);
}

static void do_copy_array(const line *arguments)
{
    void *source = object_in(arguments, SOURCE), *dest = object_in(arguments, DEST);
    int64_t length = arguments->values[LENGTH];
    if (need_items(source, arguments->values[SOURCE_START], length) &&
        need_items(dest, arguments->values[DEST_START], length))
        adapter->copy_array(source, dest, natural(arguments, SOURCE_START),
                            natural(arguments, DEST_START), natural(arguments, LENGTH));
}

static void do_fill_array(const line *arguments)
{
    void *array = object_in(arguments, ROOT);
    if (need_kind(array, &contract.array, "only arrays can be filled"))
        adapter->fill_array(array, object_in(arguments, VALUE));
}

static void do_move_array(const line *arguments)
{
    void *array = object_in(arguments, ROOT);
    int64_t length = arguments->values[LENGTH];
    if (need_items(array, arguments->values[SOURCE_START], length) &&
        need_items(array, arguments->values[DEST_START], length))
        adapter->move_array(array, natural(arguments, SOURCE_START),
                            natural(arguments, DEST_START), natural(arguments, LENGTH));
}

static void do_take_identity(const line *arguments)
{
    seen.identity = adapter->take_identity(object_in(arguments, ROOT));
    seen.has_identity = true;
}

static void do_pin(const line *arguments)
{
    void *string = object_in(arguments, ROOT);
    if (need_kind(string, &contract.string, "only strings can be pinned"))
        adapter->pin(string);
}

static void do_unpin(const line *arguments)
{
    void *string = object_in(arguments, ROOT);
    if (need_kind(string, &contract.string, "only strings can be pinned"))
        adapter->unpin(string);
}

static void do_register_finalizer(const line *arguments)
{
    void **node = &gcfuzz_roots.slots[arguments->values[ROOT]];
    if (need_kind(*node, &contract.node, "only nodes have finalizers"))
        adapter->register_finalizer(node, arguments->values[NUMBER]);
}

static void do_unregister_finalizer(const line *arguments)
{
    void *node = object_in(arguments, ROOT);
    if (need_kind(node, &contract.node, "only nodes have finalizers"))
        adapter->unregister_finalizer(node);
}

static void do_run_finalizers(const line *arguments)
{
    gcfuzz_kept.count = 0;
    kept.is_wanted = arguments->values[KEEP];
    adapter->run_finalizers();
}

static void do_resurrect(const line *arguments)
{
    size_t index = 0;
    while (index < gcfuzz_kept.count && kept.numbers[index] != arguments->values[NUMBER])
        index++;
    if (need(index < gcfuzz_kept.count, "no object is kept whose finalizer has that number"))
        add_root(gcfuzz_kept.slots[index]);
}

static void do_set_callback(const line *arguments)
{
    if (arguments->null & BIT(LENGTH))
        adapter->set_callback(-1);
    else if (need_length(arguments, &contract.string))
        adapter->set_callback(arguments->values[LENGTH]);
}

static void do_add_memory_pressure(const line *arguments)
{
    if (need(arguments->values[EXTRA_BYTES] > 0, "no pressure"))
        adapter->add_memory_pressure(natural(arguments, EXTRA_BYTES));
}

static void do_enable_sampling(const line *arguments)
{
    if (need(is_period(arguments->values[PERIOD_BYTES]), "the contract has no such period"))
        adapter->enable_sampling(natural(arguments, PERIOD_BYTES));
}

static void do_disable_sampling(const line *arguments)
{
    adapter->disable_sampling(arguments->values[REPORT]);
}

static void do_check_heap(const line *arguments)
{
    (void)arguments;
    walk();
}

static void do_check_contents(const line *arguments)
{
    (void)arguments;
    compare_contents();
}

#define DO_WITHOUT_ARGUMENTS(name) \
    static void do_##name(const line *arguments) \
    { \
        (void)arguments; \
        adapter->name(); \
    }

DO_WITHOUT_ARGUMENTS(collect_minor)
DO_WITHOUT_ARGUMENTS(collect_progress)
DO_WITHOUT_ARGUMENTS(collect_step)
DO_WITHOUT_ARGUMENTS(collect_full)
DO_WITHOUT_ARGUMENTS(pause_sampling)
DO_WITHOUT_ARGUMENTS(resume_sampling)
DO_WITHOUT_ARGUMENTS(fork)

/* Each action: its name, whether this adapter carries it out, and the keys that it has. */
#define ACTIONS(X) \
    X(allocate_node, adapter->allocate_node, BIT(NUMBER) | BIT(NONMOVABLE)) \
    X(allocate_string, adapter->allocate_string, BIT(LENGTH) | BIT(NONMOVABLE)) \
    X(allocate_array, adapter->allocate_array, BIT(LENGTH) | BIT(NONMOVABLE)) \
    X(allocate_weakref, adapter->allocate_weakref, BIT(ROOT)) \
    X(allocate_ephemeron, adapter->allocate_ephemeron, BIT(KEY) | BIT(VALUE)) \
    X(allocate_old_string, adapter->allocate_old_string, BIT(LENGTH)) \
    X(load_prebuilt, adapter->prebuilt, BIT(INDEX)) \
    X(free, true, BIT(ROOT)) \
    X(read, adapter->read, BIT(ROOT) | BIT(FIELD)) \
    X(read_number, true, BIT(ROOT)) \
    X(read_weakref, adapter->read_weakref || adapter->follow_weakref, BIT(ROOT) | BIT(KEEP)) \
    X(read_ephemeron, adapter->read_ephemeron, BIT(ROOT)) \
    X(write, adapter->write, BIT(ROOT) | BIT(FIELD) | BIT(VALUE)) \
    X(write_number, adapter->write_number, BIT(ROOT) | BIT(NUMBER)) \
    X(copy_array, adapter->copy_array, BIT(SOURCE) | BIT(DEST) | BIT(SOURCE_START) | \
        BIT(DEST_START) | BIT(LENGTH)) \
    X(fill_array, adapter->fill_array, BIT(ROOT) | BIT(VALUE)) \
    X(move_array, adapter->move_array, BIT(ROOT) | BIT(SOURCE_START) | BIT(DEST_START) | \
        BIT(LENGTH)) \
    X(take_identity, adapter->take_identity, BIT(ROOT)) \
    X(pin, adapter->pin, BIT(ROOT)) \
    X(unpin, adapter->unpin, BIT(ROOT)) \
    X(register_finalizer, adapter->register_finalizer, BIT(ROOT) | BIT(NUMBER)) \
    X(unregister_finalizer, adapter->unregister_finalizer, BIT(ROOT)) \
    X(run_finalizers, adapter->run_finalizers, BIT(KEEP)) \
    X(resurrect, adapter->run_finalizers && keeps_finalized(), BIT(NUMBER)) \
    X(set_callback, adapter->set_callback, BIT(LENGTH)) \
    X(add_memory_pressure, adapter->add_memory_pressure, BIT(EXTRA_BYTES)) \
    X(collect_minor, adapter->collect_minor, 0) \
    X(collect_progress, adapter->collect_progress, 0) \
    X(collect_step, adapter->collect_step, 0) \
    X(collect_full, adapter->collect_full, 0) \
    X(enable_sampling, adapter->enable_sampling, BIT(PERIOD_BYTES)) \
    X(disable_sampling, adapter->disable_sampling, BIT(REPORT)) \
    X(pause_sampling, adapter->pause_sampling, 0) \
    X(resume_sampling, adapter->resume_sampling, 0) \
    X(fork, adapter->fork, 0) \
    X(check_heap, observes("graph"), 0) \
    X(check_contents, adapter->contents, 0)

#define NAME_OF(name, is_supported, keys) #name,
#define CODE_OF(name, is_supported, keys) do_##name,
#define KEYS_OF(name, is_supported, keys) keys,
#define SUPPORTS(name, is_supported, keys) is_supported,

static const char *const NAMES[] = {ACTIONS(NAME_OF)};
static void (*const CODE[])(const line *) = {ACTIONS(CODE_OF)};
static const unsigned KEYS_EXPECTED[] = {ACTIONS(KEYS_OF)};

enum { ACTION_COUNT = sizeof NAMES / sizeof *NAMES };

static bool is_supported(size_t action)
{
    const bool supported[] = {ACTIONS(SUPPORTS)};
    return supported[action];
}

/* ---- JSON, as little as the protocol needs, and strictly ---- */

typedef struct {
    const char *at, *end;
    line *result;
} reader;

__attribute__((format(printf, 2, 3))) static bool complain(line *about, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (!about->problem[0])
        vsnprintf(about->problem, sizeof about->problem, format, values);
    va_end(values);
    return false;
}

static bool no_json(reader *input)
{
    return complain(input->result, "not a line of JSON");
}

static void skip_blanks(reader *input)
{
    while (input->at < input->end && strchr(" \t\r", *input->at) && *input->at)
        input->at++;
}

/* Whether `byte` comes next, which is taken then. */
static bool take(reader *input, char byte)
{
    skip_blanks(input);
    bool is_next = input->at < input->end && *input->at == byte;
    input->at += is_next;
    return is_next;
}

static bool take_word(reader *input, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(input);
    bool is_next = (size_t)(input->end - input->at) >= length &&
                   memcmp(input->at, word, length) == 0;
    input->at += is_next ? length : 0;
    return is_next;
}

static bool take_escape(reader *input)
{
    if (input->at == input->end)
        return false;
    char kind = *input->at++;
    if (kind != 'u')
        return kind && strchr("\"\\/bfnrt", kind);
    for (int digit = 0; digit < 4; digit++, input->at++)
        if (input->at == input->end || !*input->at || !strchr("0123456789abcdefABCDEF", *input->at))
            return false;
    return true;
}

/* A string, as it stands there: no name of the protocol has an escape in it, so that one that has
 * is equal to none of them. What is longer than any name is cut. */
static bool take_string(reader *input, char *name, size_t name_bytes)
{
    if (!take(input, '"'))
        return no_json(input);
    const char *start = input->at;
    while (input->at < input->end && *input->at != '"') {
        char byte = *input->at++;
        if ((unsigned char)byte < 0x20 || (byte == '\\' && !take_escape(input)))
            return no_json(input);
    }
    size_t length = (size_t)(input->at - start);
    if (!take(input, '"'))
        return no_json(input);
    length = length < name_bytes - 1 ? length : name_bytes - 1;
    memcpy(name, start, length);
    name[length] = '\0';
    return true;
}

static bool is_digit_next(const reader *input)
{
    return input->at < input->end && *input->at >= '0' && *input->at <= '9';
}

/* An integer that fits; a fraction or an exponent after it is what the caller trips over. */
static bool take_integer(reader *input, int64_t *value)
{
    bool is_negative = take(input, '-');
    const char *start = input->at;
    uint64_t size = 0, most = (uint64_t)INT64_MAX + is_negative;
    for (; is_digit_next(input); input->at++) {
        uint64_t digit = (uint64_t)(*input->at - '0');
        if (size > (most - digit) / 10)
            return complain(input->result, "a number is out of range");
        size = size * 10 + digit;
    }
    if (input->at == start || (*start == '0' && input->at - start > 1))
        return no_json(input);
    /* Negated as unsigned, where the least number is no special case. */
    *value = (int64_t)(is_negative ? 0 - size : size);
    return true;
}

static bool skip_number(reader *input)
{
    take(input, '-');
    const char *start = input->at;
    while (input->at < input->end && *input->at && strchr("0123456789.eE+-", *input->at))
        input->at++;
    return input->at > start || no_json(input);
}

static bool skip_value(reader *input, int depth);

static bool skip_members(reader *input, int depth, char close)
{
    char ignored[2];
    if (depth == 0)
        return complain(input->result, "nested too deeply");
    if (take(input, close))
        return true;
    do {
        if (close == '}' && !(take_string(input, ignored, sizeof ignored) && take(input, ':')))
            return no_json(input);
        if (!skip_value(input, depth - 1))
            return false;
    } while (take(input, ','));
    return take(input, close) || no_json(input);
}

static bool skip_value(reader *input, int depth)
{
    char ignored[2];
    if (take(input, '{'))
        return skip_members(input, depth, '}');
    if (take(input, '['))
        return skip_members(input, depth, ']');
    if (take_word(input, "true") || take_word(input, "false") || take_word(input, "null"))
        return true;
    if (input->at < input->end && *input->at == '"')
        return take_string(input, ignored, sizeof ignored);
    return skip_number(input);
}

static bool take_setting(reader *input, const char *name)
{
    for (size_t i = 0; i < adapter->setting_count; i++)
        if (strcmp(name, adapter->settings[i].name) == 0)
            return take_integer(input, &input->result->config[i]);
    return complain(input->result, "config has no setting %s", name);
}

static bool take_config(reader *input)
{
    char name[32];
    if (!take(input, '{'))
        return no_json(input);
    if (take(input, '}'))
        return true;
    do {
        if (!take_string(input, name, sizeof name))
            return false;
        if (!take(input, ':'))
            return no_json(input);
        if (!take_setting(input, name))
            return false;
    } while (take(input, ','));
    return take(input, '}') || no_json(input);
}

static bool take_argument(reader *input, enum key key)
{
    line *result = input->result;
    if (result->given & BIT(key))
        return complain(result, "%s stands there twice", KEYS[key]);
    result->given |= BIT(key);
    if (IS_FLAG(key)) {
        result->values[key] = take_word(input, "true");
        return result->values[key] || take_word(input, "false") ||
               complain(result, "%s must be true or false", KEYS[key]);
    }
    if (take_word(input, "null")) {
        result->null |= BIT(key);
        return true;
    }
    return take_integer(input, &result->values[key]);
}

static bool take_member(reader *input)
{
    line *result = input->result;
    char name[32];
    if (!take_string(input, name, sizeof name))
        return false;
    if (!take(input, ':'))
        return no_json(input);
    if (strcmp(name, "do") == 0 && !result->action[0])
        return take_string(input, result->action, sizeof result->action);
    if (strcmp(name, "gcfuzz") == 0 && !result->is_header) {
        result->is_header = true;
        return take_integer(input, &result->version);
    }
    if (strcmp(name, "config") == 0)
        return take_config(input);
    for (enum key key = 0; key < KEY_COUNT; key++)
        if (strcmp(name, KEYS[key]) == 0)
            return take_argument(input, key);
    memcpy(result->unknown, name, sizeof name);
    return skip_value(input, DEPTH_MAX);
}

/* Whether the bytes are one JSON object; what it says is in `result`, or else the problem. */
static bool read_line(const char *bytes, size_t count, line *result)
{
    reader input = {bytes, bytes + count, result};
    *result = (line){0};
    for (size_t i = 0; i < adapter->setting_count; i++)
        result->config[i] = adapter->settings[i].initial;
    if (!take(&input, '{'))
        return no_json(&input);
    if (!take(&input, '}')) {
        do {
            if (!take_member(&input))
                return false;
        } while (take(&input, ','));
        if (!take(&input, '}'))
            return no_json(&input);
    }
    skip_blanks(&input);
    return input.at == input.end || no_json(&input);
}

/* ---- A header is answered with the contract ---- */

static void append_kind(text *to, const char *name, const gcfuzz_kind *kind)
{
    if (kind->fixed_bytes == 0)
        return;
    append(to, "%s\"%s\": {\"type_index\": %u, \"fixed_bytes\": %llu, \"item_bytes\": %llu}",
           to->bytes[to->count - 1] == '{' ? "" : ", ", name, kind->type_index,
           (unsigned long long)kind->fixed_bytes, (unsigned long long)kind->item_bytes);
}

static void append_layout(text *to)
{
    append(to, "\"layout\": {\"kinds\": {");
    append_kind(to, "node", &contract.node);
    append_kind(to, "string", &contract.string);
    append_kind(to, "array", &contract.array);
    append_kind(to, "weakref", &contract.weakref);
    append_kind(to, "ephemeron", &contract.ephemeron);
    append(to, "}, \"word_bytes\": %llu, \"large_object_bytes\": %llu, \"object_bytes_max\": %llu%s}",
           (unsigned long long)contract.word_bytes,
           (unsigned long long)contract.large_object_bytes,
           (unsigned long long)contract.object_bytes_max,
           contract.ignores_nonmovable ? ", \"nonmovable\": \"ignored\"" : "");
}

static void append_choice(text *to, const char *key, const char *value)
{
    if (value)
        append(to, ", \"%s\": \"%s\"", key, value);
}

static void append_sampling(text *to)
{
    const gcfuzz_sampling *rule = &contract.sampling;
    append(to, ", \"sampling\": {\"period_bytes\": {\"minimum\": %llu, \"maximum\": %llu, "
           "\"multiple\": %llu}", (unsigned long long)rule->minimum_bytes,
           (unsigned long long)rule->maximum_bytes,
           (unsigned long long)(rule->multiple_bytes ? rule->multiple_bytes : 1));
    append_choice(to, "crosses", rule->crosses);
    append_choice(to, "surplus", rule->surplus);
    append_choice(to, "samples_per_allocation", rule->samples_per_allocation);
    append_choice(to, "distances", rule->distances);
    append_choice(to, "pinning", rule->pinning);
    append(to, ", \"disabling\": [%s%s%s]}", rule->drops_when_disabled ? "\"drop\"" : "",
           rule->drops_when_disabled && rule->reports_when_disabled ? ", " : "",
           rule->reports_when_disabled ? "\"report\"" : "");
}

static void append_finalizers(text *to)
{
    const gcfuzz_finalizers *promised = &contract.finalizers;
    append(to, ", \"finalizers\": {\"within\": %llu", (unsigned long long)promised->within);
    append_choice(to, "called", promised->called);
    append(to, ", \"within_collections\": %llu", (unsigned long long)promised->within_collections);
    append_choice(to, "registrations", promised->registrations);
    append_choice(to, "unregistering", promised->unregistering);
    append_choice(to, "order", promised->order);
    append_choice(to, "cycles", promised->cycles);
    append_choice(to, "weak", promised->weak);
    append_choice(to, "weak_in_dead", promised->weak_in_dead);
    append_choice(to, "again", promised->again);
    append_choice(to, "taken_back", promised->taken_back);
    append_choice(to, "objects", promised->objects);
    append_choice(to, "ephemerons", promised->ephemerons);
    append(to, "}");
}

static void append_promises(text *to)
{
    const struct {
        const char *name;
        bool is_made;
    } promises[] = {
        {"collections", contract.promises_collections},
        {"memory", contract.promises_memory},
        {"progress", contract.promises_progress},
        {"pressure", contract.promises_pressure},
    };
    append(to, ", \"promises\": [");
    for (size_t i = 0; i < sizeof promises / sizeof *promises; i++)
        if (promises[i].is_made)
            append(to, "%s\"%s\"", to->bytes[to->count - 1] == '[' ? "" : ", ", promises[i].name);
    append(to, "]");
}

static void append_old_space(text *to)
{
    const gcfuzz_old_space *space = &contract.old_space;
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"card_items", space->card_items},
        {"arena_object_bytes_max", space->arena_object_bytes_max},
        {"arena_bytes", space->arena_bytes},
        {"arena_pages", space->arena_pages ? space->arena_pages : 1},
        {"page_room_bytes", space->page_room_bytes},
        {"threshold_bytes", space->threshold_bytes},
        {"threshold_percent", space->threshold_percent},
    };
    append(to, ", \"old_space\": ");
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        append(to, "%s\"%s\": %llu", i ? ", " : "{", figures[i].name,
               (unsigned long long)figures[i].value);
    append(to, "}");
}

static void append_setting(text *to, const gcfuzz_setting *setting)
{
    append(to, "{\"name\": \"%s\", \"default\": %lld, \"range\": {\"minimum\": %lld, "
           "\"maximum\": %lld, \"multiple\": %lld}", setting->name, (long long)setting->initial,
           (long long)setting->minimum, (long long)setting->maximum,
           (long long)(setting->multiple ? setting->multiple : 1));
    append_choice(to, "at_most", setting->at_most);
    append(to, "}");
}

static void append_prebuilt(text *to)
{
    for (uint64_t i = 0; i < contract.prebuilt_nodes; i++)
        append(to, "%s{\"kind\": \"node\"}", i ? ", " : "");
    for (uint64_t i = 0; i < contract.prebuilt_arrays; i++)
        append(to, "%s{\"kind\": \"array\", \"length\": %llu}",
               i || contract.prebuilt_nodes ? ", " : "",
               (unsigned long long)contract.prebuilt_array_length);
}

static void append_names(text *to)
{
    append(to, ", \"actions\": [");
    for (size_t action = 0, count = 0; action < ACTION_COUNT; action++)
        if (is_supported(action))
            append(to, "%s\"%s\"", count++ ? ", " : "", NAMES[action]);
    append(to, "], \"observes\": [");
    for (const char *const *field = contract.observes; field && *field; field++)
        append(to, "%s\"%s\"", field == contract.observes ? "" : ", ", *field);
    if (adapter->contents)
        append(to, "%s\"contents\"", contract.observes && *contract.observes ? ", " : "");
    append(to, adapter->contents ? "], \"contents\": \"bytes\"" : "]");
}

static void append_contract(text *to)
{
    append(to, "{\"contract\": {\"nursery_bytes\": %llu, ",
           (unsigned long long)contract.nursery_bytes);
    if (contract.version) {
        append(to, "\"version\": ");
        append_string(to, contract.version);
        append(to, ", ");
    }
    append_layout(to);
    append_names(to);
    if (contract.sampling.maximum_bytes)
        append_sampling(to);
    if (adapter->register_finalizer || adapter->allocate_ephemeron)
        append_finalizers(to);
    append(to, ", \"settings\": [");
    for (size_t i = 0; i < adapter->setting_count; i++) {
        append(to, i ? ", " : "");
        append_setting(to, &adapter->settings[i]);
    }
    append(to, "], \"prebuilt\": [");
    append_prebuilt(to);
    append(to, "]");
    append_promises(to);
    append_old_space(to);
    if (contract.limits_survivors)
        append(to, ", \"survivor_bytes\": %llu", (unsigned long long)contract.survivor_bytes);
    if (contract.dead_within || contract.lingers_forever)
        append(to, ", \"dead_within\": %llu",
               contract.lingers_forever ? 0 : (unsigned long long)contract.dead_within);
    append_choice(to, "weak_reads", adapter->follow_weakref ? "kept" : NULL);
    append_choice(to, "steps", contract.steps);
    append(to, ", \"fresh_process\": %s, \"pins_max\": %llu}}\n",
           contract.fresh_process ? "true" : "false", (unsigned long long)contract.pins_max);
}

/* The value of the setting that this one must not exceed. */
static int64_t bound_of(const gcfuzz_setting *setting, const int64_t *values)
{
    for (size_t i = 0; setting->at_most && i < adapter->setting_count; i++)
        if (strcmp(setting->at_most, adapter->settings[i].name) == 0)
            return values[i];
    return INT64_MAX;
}

static bool check_settings(line *header)
{
    for (size_t i = 0; i < adapter->setting_count; i++) {
        const gcfuzz_setting *setting = &adapter->settings[i];
        int64_t value = header->config[i];
        if (value < setting->minimum || value > setting->maximum ||
            (setting->multiple && value % setting->multiple) ||
            value > bound_of(setting, header->config))
            return complain(header, "%s is %lld, which is illegal", setting->name,
                            (long long)value);
    }
    return true;
}

/* The counts of a program that --coverage instruments: gcfuzz may end it at any time. */
__attribute__((weak)) void __gcov_dump(void);
__attribute__((weak)) void __gcov_reset(void);

static void write_coverage(void)
{
    if (__gcov_dump != NULL && __gcov_reset != NULL) {
        __gcov_dump(); /* adds to the counts in the files */
        __gcov_reset();
    }
}

static void start(line *header)
{
    write_coverage();
    is_started = false;
    if (header->version != VERSION)
        complain(header, "version %lld is unknown", (long long)header->version);
    else if (check_settings(header)) {
        gcfuzz_roots.count = gcfuzz_kept.count = 0;
        string_count = 0;
        contract = (gcfuzz_contract){0};
        adapter->start(header->config, &contract);
        is_started = true;
    }
}

/* ---- An action is answered with an observation ---- */

/* Begin a field, if it applies and the contract promises it. */
static bool begin_field(text *to, bool applies, const char *name)
{
    if (!applies || !observes(name))
        return false;
    append(to, "%s\"%s\": ", to->bytes[to->count - 1] == '{' ? "" : ", ", name);
    return true;
}

static void append_pointers(text *to)
{
    if (adapter->pointers == NULL)
        return;
    gcfuzz_pointers pointers = {0};
    adapter->pointers(&pointers);
    if (begin_field(to, true, "free"))
        append(to, "%lld", (long long)pointers.free);
    if (begin_field(to, true, "limit"))
        append(to, "%lld", (long long)pointers.limit);
    if (begin_field(to, true, "top"))
        append(to, "%lld", (long long)pointers.top);
    if (begin_field(to, pointers.is_sampling, "sample_point"))
        append(to, "%lld", (long long)pointers.sample_point);
}

static void append_events(text *to)
{
    if (begin_field(to, seen.samples, "samples"))
        append(to, "%llu", (unsigned long long)seen.samples);
    if (begin_field(to, seen.minors, "minors"))
        append(to, "%llu", (unsigned long long)seen.minors);
    if (begin_field(to, seen.order.count, "order"))
        append(to, "\"%.*s\"", (int)seen.order.count, seen.order.bytes);
    if (begin_field(to, seen.reports.count, "reports"))
        append(to, "[%.*s]}]", (int)seen.reports.count, seen.reports.bytes);
    if (begin_field(to, seen.finalized.count, "finalized"))
        append(to, "[%.*s]", (int)seen.finalized.count, seen.finalized.bytes);
    if (begin_field(to, seen.has_graph, "graph"))
        append(to, "[%.*s]", (int)seen.graph.count, seen.graph.count ? seen.graph.bytes : "");
    if (begin_field(to, seen.has_contents, "contents"))
        append(to, "[%.*s]", (int)seen.contents.count,
               seen.contents.count ? seen.contents.bytes : "");
}

static void append_answers(text *to)
{
    if (begin_field(to, seen.is_placed, "size"))
        append(to, "%llu", (unsigned long long)seen.size_bytes);
    if (begin_field(to, seen.is_placed, "outside"))
        append(to, seen.is_outside ? "true" : "false");
    if (begin_field(to, seen.is_placed && !seen.is_outside, "at"))
        append(to, "%lld", (long long)seen.at);
    if (begin_field(to, seen.has_value, "value"))
        append(to, "%lld", (long long)seen.value);
    if (begin_field(to, seen.has_alive, "alive"))
        append(to, seen.is_alive ? "true" : "false");
    if (begin_field(to, seen.has_identity, "identity"))
        append(to, "%llu", (unsigned long long)seen.identity);
    if (begin_field(to, seen.has_memory, "memory"))
        append(to, "[%llu, %llu]", (unsigned long long)seen.used_bytes,
               (unsigned long long)seen.arena_bytes);
    if (begin_field(to, seen.has_state, "state"))
        append(to, "%llu", (unsigned long long)seen.state);
}

static void append_error(text *to, const char *error)
{
    append(to, "{\"error\": ");
    append_string(to, error);
    append(to, "}\n");
}

static void append_observation(text *to)
{
    append(to, "{");
    append_events(to);
    append_answers(to);
    append_pointers(to);
    append(to, "}\n");
}

static bool check_slots(line *action, unsigned keys)
{
    for (enum key key = 0; key < KEY_COUNT; key++)
        if (keys & SLOTS & BIT(key) & ~action->null &&
            (action->values[key] < 0 || (uint64_t)action->values[key] >= gcfuzz_roots.count))
            return complain(action, "%s names no root slot", KEYS[key]);
    return true;
}

static bool check_keys(line *action, unsigned keys, bool is_set_callback)
{
    unsigned may_be_missing = BIT(NONMOVABLE) | BIT(REPORT) | BIT(KEEP);
    unsigned may_be_null = BIT(VALUE) | (is_set_callback ? BIT(LENGTH) : 0);
    if (action->unknown[0])
        return complain(action, "there is no key %s", action->unknown);
    for (enum key key = 0; key < KEY_COUNT; key++) {
        if (action->given & ~keys & BIT(key))
            return complain(action, "%s has no %s", action->action, KEYS[key]);
        if (keys & ~action->given & ~may_be_missing & BIT(key))
            return complain(action, "%s needs %s", action->action, KEYS[key]);
        if (action->null & ~may_be_null & BIT(key))
            return complain(action, "%s must not be null", KEYS[key]);
    }
    return check_slots(action, keys);
}

static void look_after(void)
{
    if (adapter->after)
        adapter->after();
}

static void perform(line *action)
{
    size_t number = 0;
    while (number < ACTION_COUNT && strcmp(NAMES[number], action->action) != 0)
        number++;
    if (!is_started)
        complain(action, "there was no header");
    else if (number == ACTION_COUNT || !is_supported(number))
        complain(action, "no action is called %s", action->action);
    else if (check_keys(action, KEYS_EXPECTED[number], CODE[number] == do_set_callback)) {
        observe_nothing();
        CODE[number](action);
        look_after();
        if (seen.minors && observes("graph") && !seen.has_graph && !seen.error[0]) {
            walk();
            look_after();
        }
    }
}

static void answer(const char *bytes, size_t count)
{
    line parsed;
    bool is_line = read_line(bytes, count, &parsed);
    observe_nothing();
    if (is_line && parsed.is_header)
        start(&parsed);
    else if (is_line)
        perform(&parsed);
    if (parsed.problem[0]) {
        snprintf(seen.error, sizeof seen.error, "BadLine: ");
        strncat(seen.error, parsed.problem, sizeof seen.error - strlen(seen.error) - 1);
    }
    if (seen.error[0])
        append_error(&answers, seen.error);
    else if (parsed.is_header)
        append_contract(&answers);
    else
        append_observation(&answers);
}

/* ---- Lines ---- */

/* Answer the whole lines in `input`, and keep what follows them. */
static void answer_lines(text *input)
{
    char *rest = input->bytes, *end = input->bytes + input->count, *newline;
    while ((newline = memchr(rest, '\n', (size_t)(end - rest))) != NULL) {
        answer(rest, (size_t)(newline - rest));
        rest = newline + 1;
    }
    input->count = (size_t)(end - rest);
    memmove(input->bytes, rest, input->count);
}

/* Wait for more input. A false return is its end. */
static bool read_more(text *input)
{
    ssize_t count;
    write_answers();
    input->bytes = with_room(input->bytes, &input->capacity, input->count + READ_BYTES, 1);
    do
        count = read(STDIN_FILENO, input->bytes + input->count, READ_BYTES);
    while (count < 0 && errno == EINTR);
    input->count += count > 0 ? (size_t)count : 0;
    return count > 0;
}

int gcfuzz_serve(const gcfuzz_adapter *served)
{
    text input = {0};
    adapter = served;
    if (adapter->setting_count > SETTINGS_MAX) {
        fprintf(stderr, "gcfuzz_adapter: at most %d settings\n", SETTINGS_MAX);
        return EXIT_FAILURE;
    }
    if (!keep_standard_output()) {
        perror("gcfuzz_adapter: standard output");
        return EXIT_FAILURE;
    }
    while (read_more(&input)) {
        answer_lines(&input);
        if (input.count > LINE_BYTES_MAX) {
            fputs("gcfuzz_adapter: a line without an end\n", stderr);
            return EXIT_FAILURE;
        }
    }
    if (input.count) /* the last line has no end, and whoever sent it may still listen */
        append_error(&answers, "BadLine: the last line is truncated");
    write_answers();
    free(input.bytes);
    return EXIT_SUCCESS;
}
