/* The side of the mutator that the collector must not see: the protocol, the roots, the graph.

   Nothing here allocates on the heap under test. `translated.py` calls `gcfuzz_next` for an action,
   carries it out with what the GC transformer makes of RPython, and calls `gcfuzz_answer`.

   Invariants. Each trace runs in a fork of a process whose heap is as new, so no trace depends on
   earlier ones. The child begins with the trace's first action. The input's buffer is shared memory:
   the child reads up to the next header, which it answers, and its parent goes on there. The parent
   answers the first header, and each after a refused one. If the child dies, the parent dies in the same way. What the parent has
   touched is copied at each fork, so that is little. */

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* translated.py puts before this: ACTION_NAMES, FIELD_NAMES, SETTING_NAMES, their enums, the
   contracts, the limits of an action, and the numbers of objects. */

#define INPUT_BYTES (1 << 20)
#define ANSWER_BYTES_MAX (1 << 24)
#define OUTPUT_BYTES (2 * ANSWER_BYTES_MAX)
#define FREED_BYTE 0xa5
#define COUNT_OF(array) ((long)(sizeof(array) / sizeof(*(array))))
#define UNSET LONG_MIN

typedef uintptr_t word;
enum { END = -1 };
enum { NODE = 1, WEAKREF, ARRAY, STRING, DESTRUCTIBLE, KINDS_END };

/* The input and the output. */

struct input {
    size_t start, end;
    /* Whether a child has answered the next header. The harness need not wait for its end. */
    int is_answered;
    char data[INPUT_BYTES];
};
static struct input *input;
static char *output;
static size_t output_length;
static int in_child;

static void flush_output(void)
{
    size_t written = 0;
    while (written < output_length) {
        ssize_t count = write(1, output + written, output_length - written);
        if (count < 0 && errno != EINTR)
            _exit(1);
        written += count > 0 ? (size_t)count : 0;
    }
    output_length = 0;
}

/* The harness does not read a longer answer. */
static void put_bytes(const char *bytes, size_t length)
{
    if (output_length + length > OUTPUT_BYTES)
        _exit(1);
    memcpy(output + output_length, bytes, length);
    output_length += length;
}

static void put(const char *text)
{
    put_bytes(text, strlen(text));
}

/* Most of an answer is numbers. With printf() the program takes a quarter more time. */
static void put_number(long number)
{
    char digits[24], *end = digits + sizeof(digits), *first = end;
    unsigned long rest = number < 0 ? -(unsigned long)number : (unsigned long)number;
    do
        *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--first = '-';
    put_bytes(first, (size_t)(end - first));
}

static int put_field(const char *name, int is_first)
{
    put(is_first ? "\"" : ", \"");
    put(name);
    put("\": ");
    return 0;
}

/* The next line without its end, which stays in the input; NULL at the end. */
static char *peek_line(void)
{
    for (;;) {
        char *line = input->data + input->start;
        char *end = memchr(line, '\n', input->end - input->start);
        if (end != NULL) {
            *end = '\0';
            return line;
        }
        memmove(input->data, line, input->end - input->start);
        input->end -= input->start;
        input->start = 0;
        flush_output();
        if (input->end == INPUT_BYTES)
            _exit(1);
        ssize_t count = read(0, input->data + input->end, INPUT_BYTES - input->end);
        if (count < 0 && errno != EINTR)
            _exit(1);
        if (count == 0)
            return NULL;
        input->end += count > 0 ? (size_t)count : 0;
    }
}

static void take_line(char *line)
{
    input->start += strlen(line) + 1;
}

/* Another process reads the line. */
static void leave_line(char *line)
{
    line[strlen(line)] = '\n';
}

/* A line's keys and values. */

static long fields[FIELDS_END];
static long settings[SETTINGS_END];
static long action;

static long index_in(const char *const *names, long count, const char *name, size_t length)
{
    for (long index = 0; index < count; index++)
        if (strlen(names[index]) == length && memcmp(names[index], name, length) == 0)
            return index;
    return -1;
}

static char *skip_blanks(char *text)
{
    return text + strspn(text, " \t\r");
}

/* The text after a string, or NULL. Names in the protocol have no escapes. */
static char *after_string(char *text, char **string, size_t *length)
{
    if (*text != '"')
        return NULL;
    *string = text + 1;
    *length = strcspn(*string, "\"\\");
    return (*string)[*length] == '"' ? *string + *length + 1 : NULL;
}

/* Read an object of numbers into `values`, and its "do" into `action`. The text after it, or NULL. */
static char *read_object(char *text, const char *const *names, long count, long *values)
{
    if (*text++ != '{')
        return NULL;
    text = skip_blanks(text);
    while (*text != '}') {
        char *key, *value, *after;
        size_t key_length, value_length;
        if (!(text = after_string(text, &key, &key_length)) || *(text = skip_blanks(text)) != ':')
            return NULL;
        text = skip_blanks(text + 1);
        if ((after = after_string(text, &value, &value_length))) {
            if (key_length == 2 && memcmp(key, "do", 2) == 0)
                action = index_in(ACTION_NAMES, COUNT_OF(ACTION_NAMES), value, value_length);
            text = after;
        } else {
            long index = index_in(names, count, key, key_length), number;
            if (strncmp(text, "null", 4) == 0)
                number = -1, text += 4;
            else if (strncmp(text, "true", 4) == 0)
                number = 1, text += 4;
            else if (strncmp(text, "false", 5) == 0)
                number = 0, text += 5;
            else {
                number = strtol(text, &after, 10);
                if (after == text)
                    return NULL;
                text = after;
            }
            if (index < 0)
                return NULL;
            values[index] = number;
        }
        text = skip_blanks(text);
        if (*text == ',')
            text = skip_blanks(text + 1);
        else if (*text != '}')
            return NULL;
    }
    return text + 1;
}

/* The roots, in a part of the shadow stack, and the objects. Slot 0 is the first one that the
   collector visits, which walks the stack from its top to its base. The last slot is the base, as
   the walk would visit each unused word in each collection. */

static word *roots_end, *stack_base;
static long roots_count;
static word prebuilt[PREBUILT_NODES_MAX + PREBUILT_ARRAYS_MAX];
static uint32_t type_ids[KINDS_END];
static long numbers_in_reports[KINDS_END];

#define SLOT(slot) (roots_end[-1 - (slot)])

/* What the collector's figures were after the last action that could change them. */
static struct {
    word nursery, free, limit, top, sample_point;
    long nursery_bytes, state, used_bytes, arena_bytes;
} gc;

/* What the present action has caused. */
static char *order;
static long order_length, order_room, samples, minors, graph_figures;
/* What filled arrays have added, also to the list of gray objects, which the graph does not show. */
static long filled_figures;
static long is_allocating, callback_length;
static void (*callback)(long);
static char *reports;
static size_t reports_length;
static const char *problem;
/* Nothing counts: a trace is repeated until it is compiled. */
static int is_muted;
/* No action can be carried out before the next header. */
static int is_broken = 1;
/* How many lines were read and have no answer: more than one in a batch. */
static long unanswered = 1;

static void end_trace(const char *error);

static void *resized(void *block, size_t bytes)
{
    void *made = realloc(block, bytes);
    if (!made) {
        fputs("the driver has no memory left\n", stderr);
        _exit(EXIT_FAILURE);
    }
    return made;
}

#define ALLOCATES(action) (strncmp(ACTION_NAMES[action], "allocate_", 9) == 0)

static int is_in_nursery(word object)
{
    return gc.nursery <= object && object < gc.nursery + (word)gc.nursery_bytes;
}

/* The kind of an object, or 0 if no object is there. */
static long kind_of(word object)
{
    if (object == 0 || object % sizeof(word) != 0)
        return 0;
    uint32_t type_id = *(uint32_t *)object;
    for (long kind = NODE; kind < KINDS_END; kind++)
        if (type_ids[kind] == type_id)
            return kind == DESTRUCTIBLE ? NODE : kind;
    return 0;
}

/* The nodes with destructors, each with the number of its destructor and its own integer. In such a
   node is its index here. */
static struct destructible {
    long number, integer;
} *destructibles;
static long destructibles_count;

long gcfuzz_new_destructor(void)
{
    size_t count = (size_t)destructibles_count + 1;
    destructibles = resized(destructibles, count * sizeof(*destructibles));
    destructibles[destructibles_count] = (struct destructible){fields[DESTRUCTOR], fields[NUMBER]};
    return destructibles_count++;
}

/* What is known about a node with a destructor, or NULL. */
static struct destructible *destructible_of(word object)
{
    word index = ((word *)object)[1];
    if (*(uint32_t *)object != type_ids[DESTRUCTIBLE] || index >= (word)destructibles_count)
        return NULL;
    return &destructibles[index];
}

static long number_of(word object)
{
    long kind = kind_of(object);
    if (kind == WEAKREF)
        return 0;
    struct destructible *destructible = kind == NODE ? destructible_of(object) : NULL;
    if (destructible)
        return destructible->integer;
    return (long)((word *)object)[kind == STRING ? 2 : 1];
}

static long references_of(word object, word **references)
{
    long kind = kind_of(object);
    *references = (word *)object + 2;
    return kind == NODE ? 2 : kind == ARRAY ? number_of(object) : 0;
}

static long unrounded_bytes(long kind, long length)
{
    switch (kind) {
    case NODE: return 32;
    case WEAKREF: return 16;
    case ARRAY: return 16 + 8 * length;
    default: return 25 + length;
    }
}

/* Objects that were taken from the queue of finalizers, and kept, lie behind the roots. */
static long kept_count;

static void set_roots_count(long count, long kept)
{
    roots_count = count;
    kept_count = kept;
    *stack_base = (word)(roots_end - count - kept);
}

static void check_room_for_root(void)
{
    if (roots_count + kept_count == ROOTS_MAX)
        end_trace("RuntimeError: too many roots");
}

void gcfuzz_append(void *object)
{
    check_room_for_root();
    for (long slot = roots_count + kept_count; slot > roots_count; slot--)
        SLOT(slot) = SLOT(slot - 1);
    SLOT(roots_count) = (word)object;
    set_roots_count(roots_count + 1, kept_count);
}

void *gcfuzz_root(long slot)
{
    return (void *)SLOT(slot);
}

long gcfuzz_kind(long slot)
{
    return kind_of(SLOT(slot));
}

long gcfuzz_field(long field)
{
    return fields[field];
}

long gcfuzz_setting(long setting)
{
    return settings[setting];
}

void gcfuzz_prebuilt(long index, void *object)
{
    prebuilt[index] = (word)object;
}

void gcfuzz_type(long kind, void *object, long number)
{
    numbers_in_reports[kind] = number;
    type_ids[kind] = *(uint32_t *)object;
}

void gcfuzz_copy_items(void *source, void *dest, long source_start, long dest_start, long length)
{
    memmove((word *)dest + 2 + dest_start, (word *)source + 2 + source_start,
            (size_t)length * sizeof(word));
}

long gcfuzz_type_id(long kind)
{
    return type_ids[kind];
}

/* The object is garbage from here on. */
void gcfuzz_drop(void *object)
{
    (void)object;
}

void gcfuzz_refuse(void)
{
    end_trace("RuntimeError: the collector refused to pin");
}

/* The numbers of finalizers: of those in the queue, of those whose objects are kept, and of
   destructors that were called. */

struct numbers {
    long *all, count, room;
};
static struct numbers pending, kept, called;

static void add_number(struct numbers *numbers, long number)
{
    if (numbers->count == numbers->room) {
        numbers->room = 2 * numbers->room + 64;
        numbers->all = resized(numbers->all, (size_t)numbers->room * sizeof(long));
    }
    numbers->all[numbers->count++] = number;
}

void gcfuzz_pending(long number)
{
    add_number(&pending, number);
}

void gcfuzz_destroyed(long index)
{
    if (index >= 0 && index < destructibles_count)
        add_number(&called, destructibles[index].number);
}

void gcfuzz_taken(void *object)
{
    if (fields[KEEP] != 1)
        return;
    check_room_for_root();
    SLOT(roots_count + kept_count) = (word)object;
    set_roots_count(roots_count, kept_count + 1);
}

/* The place among the kept objects, or -1. */
static long place_of_kept(long number)
{
    for (long place = 0; place < kept.count && place < kept_count; place++)
        if (kept.all[place] == number)
            return place;
    return -1;
}

/* What the collector reports. */

void gcfuzz_figures(void *nursery, long nursery_bytes, void *free, void *limit, void *top,
                    void *sample_point, long state, long used_bytes, long arena_bytes)
{
    gc.nursery = (word)nursery, gc.nursery_bytes = nursery_bytes, gc.free = (word)free;
    gc.limit = (word)limit, gc.top = (word)top, gc.sample_point = (word)sample_point;
    gc.state = state;
    gc.used_bytes = used_bytes, gc.arena_bytes = arena_bytes;
}

void gcfuzz_happened(long event)
{
    if (is_muted)
        return;
    if (order_length == order_room) {
        order_room = 2 * order_room + 64;
        order = resized(order, (size_t)order_room);
    }
    order[order_length++] = (char)event;
    if (event == 's' && ++samples > SAMPLES_MAX)
        end_trace("RuntimeError: samples without an end in one action");
    if (event == 'M' && ++minors > MINORS_MAX + MINORS_PER_FIGURE * (graph_figures + filled_figures))
        end_trace("RuntimeError: minor collections without an end in one action");
}

/* A report: its entries, then the used bytes, the arenas' bytes and the state. */
void gcfuzz_reported(void *array, long count)
{
    long *figures = array;
    size_t before = output_length;
    put(reports_length ? ", {\"entries\": [" : "{\"entries\": [");
    for (long index = 0; index < count - 3; index++) {
        long kind = NODE;
        while (kind < KINDS_END && numbers_in_reports[kind] != figures[index] >> 2)
            kind++;
        put(index ? ", " : "");
        put_number((kind == DESTRUCTIBLE ? NODE : kind) << 2 | (figures[index] & 3));
    }
    put("], \"memory_used_bytes\": ");
    put_number(figures[count - 3]);
    put(", \"arena_bytes\": ");
    put_number(figures[count - 2]);
    put(", \"major_state\": ");
    put_number(figures[count - 1]);
    put("}");
    size_t length = output_length - before;
    reports = resized(reports, reports_length + length + 1);
    memcpy(reports + reports_length, output + before, length);
    reports_length += length;
    reports[reports_length] = '\0';
    output_length = before;
    gcfuzz_happened('R');
}

/* Without reports: the addresses that samples of the present action have named. */
static word addresses[SAMPLES_MAX];
static long addresses_count;

void gcfuzz_sampled(void *address)
{
    if (address && addresses_count < SAMPLES_MAX)
        addresses[addresses_count++] = (word)address;
}

/* A collection has ended: if an allocation caused it, run the callback. */
void gcfuzz_collected(void)
{
    if (is_allocating && callback_length >= 0) {
        is_allocating = 0;
        callback(callback_length);
    }
}

/* The graph: a table from addresses to rows, and the objects in the order of their rows. */

static word *table;
static long *table_rows;
static long table_room;
static word *queue;
static long queue_length, queue_room;

static void grow_table(void)
{
    table_room = table_room ? 2 * table_room : 256;
    table = resized(table, (size_t)table_room * sizeof(*table));
    table_rows = resized(table_rows, (size_t)table_room * sizeof(*table_rows));
    memset(table, 0, (size_t)table_room * sizeof(*table));
    for (long row = 0; row < queue_length; row++) {
        long place = (long)((queue[row] >> 3) * 0x9E3779B97F4A7C15u >> 20) & (table_room - 1);
        while (table[place])
            place = (place + 1) & (table_room - 1);
        table[place] = queue[row], table_rows[place] = row;
    }
}

/* The row of an object; -1 if no object is there. */
static long row_of(word object)
{
    if (2 * queue_length >= table_room)
        grow_table();
    long place = (long)((object >> 3) * 0x9E3779B97F4A7C15u >> 20) & (table_room - 1);
    for (; table[place]; place = (place + 1) & (table_room - 1))
        if (table[place] == object)
            return table_rows[place];
    if (!kind_of(object)) {
        problem = "DanglingReferenceError: a reference leads to no object";
        return -1;
    }
    if (kind_of(object) == WEAKREF) {
        word referent = ((word *)object)[1];
        if (referent && !kind_of(referent))
            problem = "DanglingReferenceError: a weak reference leads to no object";
    }
    if (queue_length == queue_room) {
        queue_room = 2 * queue_room + 64;
        queue = resized(queue, (size_t)queue_room * sizeof(*queue));
    }
    table[place] = object, table_rows[place] = queue_length;
    queue[queue_length] = object;
    return queue_length++;
}

static void queue_roots(void)
{
    queue_length = 0;
    if (table)
        memset(table, 0, (size_t)table_room * sizeof(*table));
    for (long slot = 0; slot < roots_count; slot++)
        row_of(SLOT(slot));
    for (long index = 0; index < settings[PREBUILT_NODES]; index++)
        row_of(prebuilt[index]);
    for (long index = 0; index < settings[PREBUILT_ARRAYS]; index++)
        row_of(prebuilt[PREBUILT_NODES_MAX + index]);
}

static void put_graph(void)
{
    queue_roots();
    graph_figures = 0;
    put("[");
    for (long row = 0; row < queue_length && !problem; row++) {
        word *references, object = queue[row];
        put(row ? ", [" : "[");
        put_number(kind_of(object));
        put(", ");
        put_number(number_of(object));
        graph_figures += 2;
        long count = references_of(object, &references);
        for (long field = 0; field < count && !problem; field++)
            if (references[field]) {
                put(", ");
                put_number(field);
                put(", ");
                put_number(row_of(references[field]));
                graph_figures += 2;
            }
        put("]");
    }
    put("]");
}

/* What strings contain: docs/protocol.md. The words before the characters are the header, the hash and
   the length. Writing them is no action of the collector. */

enum { CHARACTERS_AT = 3 * sizeof(word), NUMBER_BYTES = 8, SHOWN_BYTES = 16 };
static uint64_t strings_count;

static uint8_t *characters_of(word string)
{
    return (uint8_t *)(string + CHARACTERS_AT);
}

static uint8_t byte_of(uint64_t number, uint64_t offset)
{
    if (offset < NUMBER_BYTES)
        return (uint8_t)(number >> 8 * offset);
    return (uint8_t)((uint32_t)((number * 40503 + offset) % 65536) * 2654435761u >> 24);
}

static void fill_string(word string)
{
    uint64_t length = (uint64_t)number_of(string);
    strings_count++;
    for (uint64_t offset = 0; offset < length; offset++)
        characters_of(string)[offset] = byte_of(strings_count, offset);
}

/* The number in the first characters, and what is wrong with those after it. */
static void put_row_of_string(word string)
{
    const uint8_t *characters = characters_of(string);
    uint64_t number = 0, offset, length = (uint64_t)number_of(string);
    for (offset = 0; offset < length && offset < NUMBER_BYTES; offset++)
        number |= (uint64_t)characters[offset] << 8 * offset;
    put("[");
    put_number((long)number);
    while (offset < length && characters[offset] == byte_of(number, offset))
        offset++;
    if (offset < length) {
        put(", ");
        put_number((long)offset);
    }
    for (int shown = 0; offset < length && shown < SHOWN_BYTES; shown++) {
        put(", ");
        put_number(characters[offset++]);
    }
    put("]");
}

static void put_contents(void)
{
    int is_first = 1;
    queue_roots();
    put("[");
    for (long row = 0; row < queue_length && !problem; row++) {
        word *references, object = queue[row];
        long count = references_of(object, &references);
        for (long field = 0; field < count && !problem; field++)
            if (references[field])
                row_of(references[field]);
        if (kind_of(object) == STRING) {
            put(is_first ? "" : ", ");
            put_row_of_string(object);
            is_first = 0;
        }
    }
    put("]");
}

/* Identities, numbered in the order in which they were taken. */

static long *identities;
static long identities_count;

void gcfuzz_identity(long identity)
{
    long number = 0;
    while (number < identities_count && identities[number] != identity)
        number++;
    if (number == identities_count) {
        identities = resized(identities, (size_t)++identities_count * sizeof(long));
        identities[number] = identity;
    }
    fields[IDENTITY] = number + 1;
}

/* Answers. */

static void put_error(const char *error)
{
    put("{\"error\": \"");
    put(error);
    put("\"}\n");
}

static int after_any_graph(size_t before)
{
    if (problem) {
        output_length = before;
        put_error(problem);
        is_broken = 1;
    }
    return problem != NULL;
}

static void put_numbers(struct numbers *numbers, int is_first)
{
    for (long index = 0; index < numbers->count; index++) {
        put(index || !is_first ? ", " : "");
        put_number(numbers->all[index]);
    }
}

/* The numbers of destructors first. */
static void put_finalized(void)
{
    put("[");
    put_numbers(&called, 1);
    put_numbers(&pending, !called.count);
    put("]");
}

/* What was in the queue is kept now, or gone. */
static void take_finalized(void)
{
    struct numbers emptied = kept;
    kept = pending;
    pending = emptied;
    pending.count = called.count = 0;
}

/* How many objects the present action has allocated as one, and how many samples name each. */
static long members_count = 1, samples_by_member[MEMBERS_MAX];
static int is_group;

static void put_samples_by_member(void)
{
    put_field("samples_by_member", 0);
    for (long member = 0; member < members_count; member++) {
        put(member ? ", " : "[");
        put_number(samples_by_member[member]);
    }
    put("]");
}

static int put_allocated(int is_first)
{
    word object = SLOT(roots_count - members_count);
    int is_inside = is_in_nursery(object);
    for (long slot = roots_count - members_count; slot < roots_count; slot++)
        if (kind_of(SLOT(slot)) == STRING)
            fill_string(SLOT(slot));
    is_first = put_field("size", is_first);
    put_number(is_inside ? (long)(gc.free - object)
                         : unrounded_bytes(kind_of(object), number_of(object)));
    put(is_inside ? ", \"outside\": false, \"at\": " : ", \"outside\": true");
    if (is_inside)
        put_number((long)(object - gc.nursery));
    if (is_group && NAMES_SAMPLED)
        put_samples_by_member();
    return is_first;
}

static int put_events(int is_first)
{
    is_first = put_field("order", is_first);
    put("\"");
    gcfuzz_happened('\0');
    put(order);
    put("\"");
    put_field("samples", is_first);
    put_number(samples);
    put_field("minors", is_first);
    put_number(minors);
    if (reports_length) {
        put_field("reports", is_first);
        put("[");
        put(reports);
        put("]");
    }
    return is_first;
}

static void put_places(int is_first)
{
    put_field("free", is_first);
    put_number((long)(gc.free - gc.nursery));
    put_field("limit", 0);
    put_number((long)(gc.limit - gc.nursery));
    put_field("top", 0);
    put_number((long)(gc.top - gc.nursery));
    if (SHOWS_OLD_SPACE) {
        put_field("state", 0);
        put_number(gc.state);
    }
    if (gc.sample_point) {
        put_field("sample_point", 0);
        put_number((long)(gc.sample_point - gc.nursery));
    }
}

/* Without the end of the line. An error replaces all that was put from there on. */
static void put_answer(long found, size_t before)
{
    int is_first = 1;
    put("{");
    if (ALLOCATES(action)) {
        is_first = put_allocated(is_first);
    } else if (action == COLLECT_FULL && SHOWS_OLD_SPACE) {
        is_first = put_field("memory", is_first);
        put("[");
        put_number(gc.used_bytes);
        put(", ");
        put_number(gc.arena_bytes);
        put("]");
    } else if (action == RUN_FINALIZERS) {
        is_first = put_field("finalized", is_first);
        put_finalized();
        take_finalized();
    } else if (action == TAKE_IDENTITY) {
        is_first = put_field("identity", is_first);
        put_number(fields[IDENTITY]);
    } else if (action == READ_WEAKREF) {
        is_first = put_field("alive", is_first);
        put(found ? "true" : "false");
    } else if (action == READ_NUMBER || (action == READ && found >= 0)) {
        is_first = put_field("value", is_first);
        put_number(found);
    }
    if (order_length)
        is_first = put_events(is_first);
    if (action == CHECK_CONTENTS) {
        is_first = put_field("contents", is_first);
        put_contents();
        if (after_any_graph(before))
            return;
    }
    if (minors || action == CHECK_HEAP) {
        is_first = put_field("graph", is_first);
        put_graph();
        if (after_any_graph(before))
            return;
    }
    put_places(is_first);
    put("}");
}

void gcfuzz_answer(long found)
{
    put_answer(found, output_length);
    if (!problem)
        put("\n");
}

/* The contract under these settings: the template has @ and a number for each figure. */
static void put_contract(void)
{
    long nursery_bytes = settings[NURSERY_BYTES], large_bytes = settings[LARGE_OBJECT_BYTES];
    long pins = nursery_bytes / ((large_bytes + 7) / 8 * 8) - 1;
    long figures[] = {nursery_bytes, large_bytes, pins > 0 ? pins / 2 : 0,
                      nursery_bytes * THRESHOLD_PERCENT / 100};
    for (const char *text = STATED_CONTRACT; *text; text++)
        if (*text != '@')
            put_bytes(text, 1);
        else if (*++text != 'P')
            put_number(figures[*text - '0']);
        else {
            for (long index = 0; index < settings[PREBUILT_NODES]; index++)
                put(index ? ", " PREBUILT_NODE : PREBUILT_NODE);
            for (long index = 0; index < settings[PREBUILT_ARRAYS]; index++)
                put(index || settings[PREBUILT_NODES] ? ", " PREBUILT_ARRAY : PREBUILT_ARRAY);
        }
    put("\n");
}

/* The next action. */

static void die_as(int status)
{
    flush_output();
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int is_header(const char *line)
{
    return strstr(line, "\"gcfuzz\"") != NULL;
}

/* End with the parent, also with one that ended before this was asked for. */
static void end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static void read_header(char *line)
{
    char *config = strstr(line, "\"config\"");
    memcpy(settings, DEFAULT_SETTINGS, sizeof(settings));
    if (config)
        config = skip_blanks(strchr(config + 8, ':') ? strchr(config + 8, ':') + 1 : "");
    is_broken = config && !read_object(config, SETTING_NAMES, SETTINGS_END, settings);
    for (long index = 0; index < SETTINGS_END; index++)
        is_broken |= OF_PROCESS[index] && settings[index] != DEFAULT_SETTINGS[index];
    if (settings[NURSERY_BYTES] < NURSERY_BYTES_MIN)
        settings[NURSERY_BYTES] = NURSERY_BYTES_MIN;
    if (input->is_answered)
        input->is_answered = 0;
    else if (is_broken)
        put_error("IllegalError: config has a setting that does not exist");
    else
        put_contract();
}

/* End a child at the next header, or at the end of the input. */
static void end_child(char *line)
{
    if (line) {
        read_header(line);
        input->is_answered = 1;
        leave_line(line);
    }
    flush_output();
    _exit(0);
}

/* Fork for the actions of a trace. The parent returns when the child has ended. */
static void fork_for_trace(void)
{
    flush_output();
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0)
        _exit(1);
    if (child == 0) {
        end_with(parent);
        in_child = 1;
        return;
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            _exit(1);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die_as(status);
}

static void put_gone(void)
{
    put_error("IllegalError: the heap is gone after an error; send a header");
}

static void end_trace(const char *error)
{
    put_error(error);
    is_broken = 1;
    while (--unanswered > 0)
        put_gone();
    for (;;) {
        char *line = peek_line();
        if (!line || is_header(line))
            end_child(line);
        take_line(line);
        put_gone();
    }
}

/* Why this action makes no sense now, or NULL. */
static const char *objection(void)
{
    static const int slots[] = {ROOT, SOURCE, DEST, VALUE};
    word *references;
    for (long index = 0; index < COUNT_OF(slots); index++) {
        long slot = fields[slots[index]];
        if (slot == UNSET || (slots[index] == VALUE && slot == -1))
            continue;
        if (slot < 0 || slot >= roots_count)
            return "IllegalError: there is no such root";
        if (!kind_of(SLOT(slot)))
            return "DanglingReferenceError: a root leads to no object";
    }
    if (action == READ || action == WRITE)
        if (fields[FIELD] < 0 || fields[FIELD] >= references_of(SLOT(fields[ROOT]), &references))
            return "IllegalError: there is no such field";
    if (action == RESURRECT && place_of_kept(fields[NUMBER]) < 0)
        return "IllegalError: there is no such object";
    return NULL;
}

static long carried_out_here(long *found)
{
    word *references, object = fields[ROOT] == UNSET ? 0 : SLOT(fields[ROOT]);
    *found = -1;
    switch (action) {
    case LOAD_PREBUILT:
        gcfuzz_append((void *)prebuilt[fields[INDEX] < settings[PREBUILT_NODES]
                                   ? fields[INDEX]
                                   : PREBUILT_NODES_MAX + fields[INDEX] - settings[PREBUILT_NODES]]);
        return 1;
    case FREE:
        for (long slot = fields[ROOT]; slot < roots_count + kept_count - 1; slot++)
            SLOT(slot) = SLOT(slot + 1);
        set_roots_count(roots_count - 1, kept_count);
        return 1;
    case READ:
        references_of(object, &references);
        if (references[fields[FIELD]]) {
            gcfuzz_append((void *)references[fields[FIELD]]);
            for (*found = 0; SLOT(*found) != references[fields[FIELD]];)
                ++*found;
        }
        return 1;
    case WRITE_NUMBER:
        if (kind_of(object) == NODE && destructible_of(object)) {
            destructible_of(object)->integer = fields[NUMBER];
            return 1;
        }
        return 0;
    case RUN_FINALIZERS:
        set_roots_count(roots_count, 0);
        return 0;
    case RESURRECT:
        gcfuzz_append((void *)SLOT(roots_count + place_of_kept(fields[NUMBER])));
        return 1;
    case READ_NUMBER:
        *found = number_of(object);
        return 1;
    case READ_WEAKREF:
        *found = ((word *)object)[1] != 0;
        if (fields[KEEP] == 1)
            gcfuzz_append((void *)(*found ? ((word *)object)[1] : object));
        return 1;
    case SET_CALLBACK:
        callback_length = fields[LENGTH] == UNSET ? -1 : fields[LENGTH];
        return 1;
    case CHECK_HEAP:
    case CHECK_CONTENTS:
        return 1;
    }
    return 0;
}

/* The action that translated.py has to carry out, BEGIN_TRACE in a new fork, or END. */
long gcfuzz_next(void)
{
    for (;;) {
        if (output_length > OUTPUT_BYTES - ANSWER_BYTES_MAX)
            flush_output();
        char *line = peek_line();
        if (!line) {
            flush_output();
            return END;
        }
        if (is_header(line)) {
            if (in_child)
                end_child(line);
            read_header(line);
            take_line(line);
            continue;
        }
        if (!in_child && !is_broken) {
            leave_line(line);
            fork_for_trace();
            if (in_child)
                return BEGIN_TRACE;
            continue;
        }
        action = -1;
        for (long field = 0; field < FIELDS_END; field++)
            fields[field] = UNSET;
        int is_right = read_object(skip_blanks(line), FIELD_NAMES, FIELDS_END, fields) != NULL;
        take_line(line);
        if (is_broken) {
            put_gone();
            continue;
        }
        order_length = samples = minors = 0;
        reports_length = 0;
        const char *why = !is_right || action < 0 ? "IllegalError: no action" : objection();
        if (why) {
            put_error(why);
            is_broken = 1;
            continue;
        }
        long found;
        if (action == FILL_ARRAY)
            filled_figures += 2 * number_of(SLOT(fields[ROOT]));
        is_allocating = ALLOCATES(action);
        if (!carried_out_here(&found))
            return action;
        gcfuzz_answer(found);
    }
}

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(1);
    return memory;
}

/* Called once, before any trace, with the place of the roots and that of the stack's base. */
void gcfuzz_begin(void *stack_top, void *base, void (*run_callback)(long))
{
    const char *line = getenv("GCFUZZ_FIRST_LINE");
    input = shared_memory(sizeof(*input));
    /* Not of malloc(): when answers are written depends on the time, and a buffer that grows would
       change which address, and so which identity, malloc() gives an object again. */
    output = shared_memory(OUTPUT_BYTES);
    if (line && strlen(line) < INPUT_BYTES) {
        strcpy(input->data, line);
        input->end = strlen(line);
    }
    /* malloc() fills what is freed from here on, as the buffers before would fill page tables. */
    mallopt(M_PERTURB, FREED_BYTE);
    callback_length = -1;
    callback = run_callback;
    stack_base = base;
    roots_end = (word *)stack_top + ROOTS_MAX;
    set_roots_count(0, 0);
}

long gcfuzz_roots_bytes(void)
{
    return ROOTS_MAX * (long)sizeof(word);
}
