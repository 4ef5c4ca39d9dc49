/* The collector: allocation, the write barrier, the minor and the full collection.
 *
 * A minor collection moves what survives out of the nursery, so that every reference to it must be
 * found: they stand in the roots, in survivors, and in the old objects that the barrier remembers.
 * What is left behind is overwritten, and poisoned for the address sanitizer, so that a reference
 * that was missed shows as soon as it is followed.
 */
#include "collector.h"

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bugs.h"
#include "sampling.h"

enum { GONE = 0xDD }; /* what dead memory is filled with: no object has this kind */

_Static_assert(sizeof(object) == 2 * WORD_BYTES, "a header and one word");

collector gc;

/* ---- Memory ---- */

static void *checked(void *memory)
{
    if (memory == NULL) {
        fputs("collector: out of memory\n", stderr);
        abort();
    }
    return memory;
}

void gc_append(object_list *list, object *obj)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 16;
        list->items = checked(realloc(list->items, list->capacity * sizeof *list->items));
    }
    list->items[list->count++] = obj;
}

static size_t rounded(size_t size_bytes)
{
    return (size_bytes + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES;
}

size_t gc_reference_count(const object *obj)
{
    if (obj->kind == KIND_NODE)
        return NODE_REFERENCES;
    return obj->kind == KIND_ARRAY ? (size_t)obj->length : 0;
}

size_t gc_object_bytes(const object *obj)
{
    if (obj->kind == KIND_STRING)
        return sizeof *obj + (size_t)obj->length + STRING_END_BYTES;
    return sizeof *obj + gc_reference_count(obj) * sizeof *obj->references;
}

static object *new_outside(size_t size_bytes)
{
    gc.outside_bytes += size_bytes;
    return checked(malloc(size_bytes));
}

static void free_outside(object *obj)
{
    size_t size_bytes = gc_object_bytes(obj);
    gc.outside_bytes -= size_bytes;
    memset(obj, GONE, size_bytes);
    free(obj);
}

static void empty_nursery(void)
{
    size_t nursery_bytes = gc.nursery_top - gc.nursery_start;
    uintptr_t nursery_free_before = gc.nursery_free;
    ASAN_UNPOISON_MEMORY_REGION((void *)gc.nursery_start, nursery_bytes);
    memset((void *)gc.nursery_start, GONE, nursery_bytes);
    ASAN_POISON_MEMORY_REGION((void *)gc.nursery_start, nursery_bytes);
    gc.nursery_free = gc.nursery_start;
    sampling_nursery_moved(nursery_free_before);
}

static void set_full_at(void)
{
    gc.full_at_bytes = 2 * gc.outside_bytes + 8 * (gc.nursery_top - gc.nursery_start);
}

static void free_list(object_list *list)
{
    free(list->items);
    *list = (object_list){0};
}

void gc_start(size_t nursery_bytes, size_t large_object_bytes, collector_events events)
{
    gc_stop();
    gc.nursery_start = gc.nursery_free = (uintptr_t)checked(malloc(nursery_bytes));
    gc.nursery_top = gc.nursery_start + nursery_bytes;
    gc.large_object_bytes = large_object_bytes;
    gc.events = events;
    set_full_at();
    empty_nursery();
    sampling_start();
}

void gc_stop(void)
{
    for (size_t i = 0; i < gc.young.count; i++)
        free_outside(gc.young.items[i]);
    for (size_t i = 0; i < gc.old.count; i++)
        free_outside(gc.old.items[i]);
    free_list(&gc.young);
    free_list(&gc.old);
    free_list(&gc.remembered);
    free_list(&gc.weakrefs);
    sampling_stop();
    ASAN_UNPOISON_MEMORY_REGION((void *)gc.nursery_start, gc.nursery_top - gc.nursery_start);
    free((void *)gc.nursery_start);
    gc = (collector){0};
}

/* ---- Allocation ---- */

uintptr_t gc_collect_and_reserve(size_t size_bytes)
{
    gc.nursery_free -= size_bytes; /* the fast path has moved it already */
    size_t samples = sampling_pass(gc.nursery_free + size_bytes);
    /* The sample point lies beyond the object now, so that the limit can only be the end. */
    if (gc.nursery_free + size_bytes > gc.nursery_limit)
        gc_collect_progress();
    uintptr_t result = gc.nursery_free;
    gc.nursery_free += size_bytes;
    /* Only now: a report of the collection above must not speak of this object. */
    sampling_record((object *)result, samples);
    return result;
}

static object *allocate_in_nursery(object_kind kind, size_t size_bytes)
{
    object *obj = (object *)gc_reserve(size_bytes);
    ASAN_UNPOISON_MEMORY_REGION(obj, size_bytes);
    *obj = (object){.kind = (uint16_t)kind};
    return obj;
}

/* (Listing 5.) What lies outside does not fill the nursery, but the heap, and that is collected. */
static object *allocate_outside(object_kind kind, size_t raw_bytes, uint16_t flags,
                                object_list *list)
{
    if (gc.outside_bytes + raw_bytes > gc.full_at_bytes)
        gc_collect_progress();
    object *obj = new_outside(raw_bytes);
    *obj = (object){.kind = (uint16_t)kind, .flags = flags};
    gc_append(list, obj);
    sampling_allocated_outside(obj, raw_bytes);
    return obj;
}

static object *allocate(object_kind kind, size_t raw_bytes, bool nonmovable)
{
    if (nonmovable || raw_bytes >= gc.large_object_bytes)
        return allocate_outside(kind, raw_bytes, FLAG_OUTSIDE | FLAG_YOUNG, &gc.young);
    return allocate_in_nursery(kind, rounded(raw_bytes));
}

static object *clear_references(object *obj)
{
    memset(obj->references, 0, gc_reference_count(obj) * sizeof *obj->references);
    return obj;
}

object *gc_allocate_node(int64_t number, bool nonmovable)
{
    size_t raw_bytes = sizeof(object) + NODE_REFERENCES * sizeof(object *);
    object *node = allocate(KIND_NODE, raw_bytes, nonmovable);
    node->number = number;
    return clear_references(node);
}

object *gc_allocate_array(size_t length, bool nonmovable)
{
    object *array = allocate(KIND_ARRAY, sizeof(object) + length * sizeof(object *), nonmovable);
    array->length = (int64_t)length;
    return clear_references(array);
}

static object *fill_string(object *string, size_t length)
{
    string->length = (int64_t)length;
    memset(string->references, 'x', length);
    ((char *)string->references)[length] = '\0';
    return string;
}

object *gc_allocate_string(size_t length, bool nonmovable)
{
    size_t raw_bytes = sizeof(object) + length + STRING_END_BYTES;
    return fill_string(allocate(KIND_STRING, raw_bytes, nonmovable), length);
}

/* A string that is old from the start: only a full collection frees it. */
object *gc_allocate_old_string(size_t length)
{
    size_t raw_bytes = sizeof(object) + length + STRING_END_BYTES;
    uint16_t flags = FLAG_OUTSIDE | FLAG_TRACK_YOUNG;
    return fill_string(allocate_outside(KIND_STRING, raw_bytes, flags, &gc.old), length);
}

object *gc_allocate_weakref(void *const *target)
{
    object *weakref = allocate(KIND_WEAKREF, sizeof(object), false);
    weakref->target = *target;
    gc_append(&gc.weakrefs, weakref);
    return weakref;
}

uint32_t gc_identity(object *obj)
{
    if (obj->identity == 0)
        obj->identity = ++gc.identities;
    return obj->identity;
}

/* ---- The write barrier ---- */

static void remember(object *obj)
{
    if (obj->flags & FLAG_TRACK_YOUNG) {
        obj->flags &= (uint16_t)~FLAG_TRACK_YOUNG;
        gc_append(&gc.remembered, obj);
    }
}

void gc_write(object *obj, size_t field, object *value)
{
    remember(obj);
    obj->references[field] = value;
}

/* Whether there is anything but NULL among the items. */
static bool has_reference(object *const *items, size_t count)
{
    size_t i = 0;
    if (BUG_LOOKS_PAST_THE_END)
        while (items[i] == NULL && i < count)
            i++;
    else
        while (i < count && items[i] == NULL)
            i++;
    return i < count;
}

void gc_copy_array(object *source, object *dest, size_t source_start, size_t dest_start,
                   size_t length)
{
    object **from = source->references + source_start;
    if (!BUG_ARRAYCOPY_SKIPS_BARRIER && has_reference(from, length))
        remember(dest);
    memmove(dest->references + dest_start, from, length * sizeof *from);
}

/* ---- Weak references ---- */

/* Follow or clear all weak references, once it is known where each object has survived. */
static void update_weakrefs(object *(*survivor)(object *))
{
    size_t kept = 0;
    for (size_t i = 0; i < gc.weakrefs.count; i++) {
        object *weakref = survivor(gc.weakrefs.items[i]);
        if (weakref == NULL)
            continue;
        weakref->target = survivor(weakref->target);
        if (weakref->target != NULL)
            gc.weakrefs.items[kept++] = weakref;
    }
    gc.weakrefs.count = kept;
}

/* ---- The minor collection ---- */

object *gc_minor_survivor(object *obj)
{
    if (obj->flags & FLAG_OUTSIDE)
        return obj->flags & FLAG_YOUNG ? NULL : obj;
    return obj->flags & FLAG_FORWARDED ? obj->forwarded_to : NULL;
}

/* What became old is visited like what was remembered: it may refer to young objects. */
static void make_old(object *obj)
{
    obj->flags = FLAG_OUTSIDE | FLAG_TRACK_YOUNG;
    gc_append(&gc.old, obj);
    gc_append(&gc.remembered, obj);
}

static void move_out(object *obj)
{
    size_t size_bytes = gc_object_bytes(obj);
    size_t copied_bytes = size_bytes;
    if (BUG_MOVE_CUTS_STRING && obj->kind == KIND_STRING && size_bytes > 2 * sizeof(object))
        copied_bytes = 2 * sizeof(object);
    object *moved = new_outside(size_bytes);
    memcpy(moved, obj, copied_bytes);
    memset((char *)moved + copied_bytes, 0, size_bytes - copied_bytes);
    make_old(moved);
    obj->flags |= FLAG_FORWARDED;
    obj->forwarded_to = moved;
}

/* The object that this reference leads to survives, and the reference follows it. */
static void drag_out(object **reference)
{
    object *obj = *reference;
    if (obj == NULL)
        return;
    if (obj->flags & FLAG_YOUNG)
        make_old(obj);
    else if (!(obj->flags & (FLAG_OUTSIDE | FLAG_FORWARDED)))
        move_out(obj);
    if (obj->flags & FLAG_FORWARDED)
        *reference = obj->forwarded_to;
}

static void drag_out_from_remembered(void)
{
    while (gc.remembered.count) {
        object *obj = gc.remembered.items[--gc.remembered.count];
        if (!BUG_FORGOTTEN_REMEMBERED_ENTRY)
            obj->flags |= FLAG_TRACK_YOUNG;
        for (size_t field = 0; field < gc_reference_count(obj); field++)
            drag_out(&obj->references[field]);
    }
}

/* Those that survived are in `old` by now. */
static void free_dead_young(void)
{
    for (size_t i = 0; i < gc.young.count; i++)
        if (gc.young.items[i]->flags & FLAG_YOUNG)
            free_outside(gc.young.items[i]);
    gc.young.count = 0;
}

void gc_collect_minor(void)
{
    gc.events.collected();
    gc.events.visit_roots(drag_out);
    drag_out_from_remembered();
    update_weakrefs(gc_minor_survivor);
    sampling_report();
    free_dead_young();
    empty_nursery();
}

/* ---- The full collection: nothing is young ---- */

static object_list marking;

static void mark(object **reference)
{
    object *obj = *reference;
    if (obj != NULL && !(obj->flags & FLAG_MARKED)) {
        obj->flags |= FLAG_MARKED;
        gc_append(&marking, obj);
    }
}

static void mark_reachable(void)
{
    gc.events.visit_roots(mark);
    while (marking.count) {
        object *obj = marking.items[--marking.count];
        for (size_t field = 0; field < gc_reference_count(obj); field++)
            mark(&obj->references[field]);
    }
    free_list(&marking);
}

static object *marked(object *obj)
{
    return obj->flags & FLAG_MARKED ? obj : NULL;
}

static void sweep(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < gc.old.count; i++) {
        object *obj = gc.old.items[i];
        if (obj->flags & FLAG_MARKED) {
            obj->flags &= (uint16_t)~FLAG_MARKED;
            gc.old.items[kept++] = obj;
        } else {
            free_outside(obj);
        }
    }
    gc.old.count = kept;
}

static void mark_and_sweep(void)
{
    mark_reachable();
    update_weakrefs(marked);
    sweep();
    set_full_at();
}

void gc_collect_progress(void)
{
    gc_collect_minor();
    if (gc.outside_bytes > gc.full_at_bytes)
        mark_and_sweep();
}

void gc_collect_full(void)
{
    gc_collect_minor();
    mark_and_sweep();
}
