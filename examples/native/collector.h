/* A small generational collector that samples its allocations.
 *
 * New objects are bump-allocated in the nursery; a minor collection moves those that survive to
 * memory of their own, and a full collection marks and sweeps what lies outside. Every n-th
 * allocated byte is sampled, at no cost to an allocation that fits: sampling.h says how. After
 * Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine.
 *
 * Invariants, between any two calls:
 *
 *     nursery_start <= nursery_free <= nursery_limit <= nursery_top
 *     an old object that refers to a young one is in `remembered`
 *
 * Addresses in the nursery are integers, since nursery_free may pass the end, where C allows no
 * pointer, before anybody looks at it.
 */
#ifndef COLLECTOR_H
#define COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORD_BYTES = 8, OBJECT_BYTES_MAX = 1 << 16 };

typedef enum { KIND_NONE, KIND_NODE, KIND_WEAKREF, KIND_ARRAY, KIND_STRING } object_kind;

enum {
    FLAG_OUTSIDE = 1,     /* lies outside the nursery, and never moves */
    FLAG_YOUNG = 2,       /* outside, and no minor collection has reached it yet */
    FLAG_TRACK_YOUNG = 4, /* old, not in `remembered`: a write into it must put it there */
    FLAG_FORWARDED = 8,   /* moved out of the nursery by the collection that goes on */
    FLAG_MARKED = 16,     /* reached by the full collection that goes on */
};

/* The header is the paper's figure 7; what it pads holds the identity here. */
typedef struct object {
    uint16_t kind, flags;
    uint32_t identity; /* 0: never taken */
    union {
        int64_t number;              /* of a node */
        int64_t length;              /* of an array or a string */
        struct object *target;       /* of a weak reference, NULL once its object is dead */
        struct object *forwarded_to; /* of an object that was moved */
    };
    struct object *references[]; /* two of a node, `length` of an array; or a string's characters */
} object;

enum { NODE_REFERENCES = 2, STRING_END_BYTES = 1 };

typedef struct {
    object **items;
    size_t count, capacity;
} object_list;

/* What the collector tells, and what it must ask. */
typedef struct {
    void (*visit_roots)(void (*visit)(object **root));
    void (*collected)(void); /* a minor collection begins */
    void (*sampled)(void);   /* here a profiler records the call stack */
    void (*report_begins)(void);
    void (*reported)(const object *sampled, bool survived);
} collector_events;

typedef struct {
    uintptr_t nursery_free;  /* where the next object goes */
    uintptr_t nursery_limit; /* what the fast path compares with */
    uintptr_t nursery_top;   /* the real end */
    uintptr_t nursery_start;
    size_t large_object_bytes; /* objects of this size or more lie outside */
    size_t outside_bytes;      /* of all objects outside */
    size_t full_at_bytes;      /* that many make a full collection due */
    uint32_t identities;       /* how many were taken */
    object_list remembered;    /* old objects to be visited by the next minor collection */
    object_list young;         /* outside, but not through a minor collection yet */
    object_list old;
    object_list weakrefs; /* those whose object is not known to be dead */
    collector_events events;
} collector;

extern collector gc;

/* The slow path: the limit was passed. (Listing 4.) */
uintptr_t gc_collect_and_reserve(size_t size_bytes);

/* Room for an object in the nursery, whole words. (Listing 1.) */
static inline uintptr_t gc_reserve(size_t size_bytes)
{
    uintptr_t result = gc.nursery_free;
    gc.nursery_free = result + size_bytes;
    if (gc.nursery_free > gc.nursery_limit)
        result = gc_collect_and_reserve(size_bytes);
    return result;
}

/* An empty heap; what was there before is gone. */
void gc_start(size_t nursery_bytes, size_t large_object_bytes, collector_events events);
void gc_stop(void);

/* New objects. Whatever is to survive must be reachable from the roots. */
object *gc_allocate_node(int64_t number, bool nonmovable);
object *gc_allocate_array(size_t length, bool nonmovable);
object *gc_allocate_string(size_t length, bool nonmovable);
object *gc_allocate_old_string(size_t length);
object *gc_allocate_weakref(void *const *target); /* a root, since allocating may move its object */

/* Writes go through the barrier. */
void gc_write(object *obj, size_t field, object *value);
void gc_copy_array(object *source, object *dest, size_t source_start, size_t dest_start,
                   size_t length);

size_t gc_reference_count(const object *obj);
size_t gc_object_bytes(const object *obj); /* not rounded */
uint32_t gc_identity(object *obj);

void gc_collect_minor(void);
void gc_collect_progress(void); /* what a full nursery causes */
void gc_collect_full(void);

/* Where an object is after the minor collection that goes on, or NULL if it is dead. */
object *gc_minor_survivor(object *obj);

void gc_append(object_list *list, object *obj);

#endif
