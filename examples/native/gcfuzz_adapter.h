/* The adapter kit: a collector behind a pipe, driven by gcfuzz.
 *
 * Fill in a gcfuzz_adapter, call gcfuzz_serve, and the program speaks gcfuzz's protocol
 * (docs/protocol.md): the kit reads the lines, keeps the roots, checks every argument, walks the
 * heap and prints the answers. The collector is asked for nothing but its own work. `gcfuzz schema`
 * prints a JSON Schema of the lines.
 *
 * Invariant: a callback is only ever given what is legal under the contract: live objects of the
 * right kind, fields and ranges that exist, sizes and periods that the contract allows.
 *
 * An object is a `void *` whose meaning is the collector's own. One that moves must be updated in
 * the roots, see gcfuzz_roots. Standard output belongs to the protocol, so what the collector prints
 * goes to standard error.
 */
#ifndef GCFUZZ_ADAPTER_H
#define GCFUZZ_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a target promises. Whatever is zero or NULL is left out of the answer. Give values by the names
 * of fields, since new ones are added where they belong: { .nursery_bytes = 4096 }. */

typedef struct {
    uint32_t type_index;  /* names the kind in graphs and reports */
    uint64_t fixed_bytes; /* 0: no object of this kind can be allocated */
    uint64_t item_bytes;  /* for each character or item */
} gcfuzz_kind;

typedef struct {
    uint64_t minimum_bytes, maximum_bytes, multiple_bytes; /* the legal periods */
    const char *crosses;                /* "beyond", "at" */
    const char *surplus;                /* "carried", "dropped" */
    const char *samples_per_allocation; /* "all", "one" */
    const char *distances;              /* "period", "random", "unstated" */
    const char *pinning;                /* "excluded", "allowed" */
    bool drops_when_disabled, reports_when_disabled;
} gcfuzz_sampling;

/* What is promised about finalizers and ephemerons, if there are any. */
typedef struct {
    uint64_t within; /* after this many full collections they are pending; 0: no call is promised */
    const char *called;                 /* "in_collection", "later" */
    uint64_t within_collections;        /* the same as `within`, of any kind; 0: no number */
    const char *registrations;          /* "any", "one_at_a_time", "one" */
    const char *unregistering;          /* "present", "all" */
    const char *order;                  /* "none", "reverse_registration", "referrer_first" */
    const char *cycles;                 /* "any", "first_registered", "never" */
    const char *weak;                   /* "cleared_before", "cleared_after" */
    const char *weak_in_dead;           /* "cleared", "kept" */
    const char *again;                  /* "new_place", "old_place" */
    const char *taken_back;             /* "dropped", "kept_once" */
    const char *objects;                /* "kept", "dead" */
    const char *ephemerons;             /* "pairs", "attached" */
} gcfuzz_finalizers;

/* What objects cost outside the nursery, for the promises about it. docs/protocol.md explains these. */
typedef struct {
    uint64_t card_items, arena_object_bytes_max, arena_bytes, arena_pages, page_room_bytes;
    uint64_t threshold_bytes, threshold_percent;
} gcfuzz_old_space;

typedef struct {
    uint64_t nursery_bytes;
    gcfuzz_kind node, string, array, weakref, ephemeron;
    uint64_t word_bytes, large_object_bytes, object_bytes_max;
    bool ignores_nonmovable; /* or else a nonmovable object lies outside the nursery */
    gcfuzz_sampling sampling;
    gcfuzz_finalizers finalizers;
    const char *const *observes; /* names of fields, NULL after the last; others are not printed */
    bool promises_collections; /* when they come depends on the actions alone */
    bool promises_memory;      /* see gcfuzz_memory */
    bool promises_progress, promises_pressure; /* see gcfuzz_state */
    gcfuzz_old_space old_space;
    /* Whether dead objects may stay until the next full collection: once more bytes than these have
     * survived since the last one. If not, each dead young object dies in the next collection. */
    bool limits_survivors;
    uint64_t survivor_bytes;
    uint64_t dead_within;  /* so many full collections end what is unreachable; 0 stands for 1 */
    bool lingers_forever;  /* or it may never be dead */
    const char *steps;     /* "minor", "open" */
    const char *version;       /* of the collector, in reports: "mine 1.2"; or NULL */
    bool fresh_process;        /* a header does not undo all: each trace gets a process */
    uint64_t pins_max;
    /* Immortal objects: nodes, then arrays of one length. See the callback `prebuilt`. */
    uint64_t prebuilt_nodes, prebuilt_arrays, prebuilt_array_length;
} gcfuzz_contract;

/* A key that a header's `config` may have. */
typedef struct {
    const char *name;
    int64_t initial, minimum, maximum, multiple;
    const char *at_most; /* the name of the setting whose value this one must not exceed, or NULL */
} gcfuzz_setting;

/* What a walk through the heap wants to know of an object. */
typedef struct {
    uint32_t type_index;
    int64_t number;      /* a node's integer, the length of a string or array, or else 0 */
    uint64_t references; /* how many strong references `read` can be asked for */
} gcfuzz_description;

/* Where the allocator's pointers are, as offsets from the nursery's start. */
typedef struct {
    int64_t free, limit, top;
    bool is_sampling; /* or else `sample_point` has no meaning */
    int64_t sample_point;
} gcfuzz_pointers;

/* The collector, as the kit sees it. An action whose callback is NULL is not promised. */
typedef struct {
    const gcfuzz_setting *settings;
    size_t setting_count;

    /* Forget everything and start anew; values are in the order of `settings`. Required. */
    void (*start)(const int64_t *values, gcfuzz_contract *contract);

    /* Describe an object, or call gcfuzz_failed if it is none (any more). Required. */
    void (*describe)(const void *object, gcfuzz_description *description);

    /* After every action, and again after a walk that a collection causes. Here a collector that
     * does not report its collections looks for them (gcfuzz_collected), and an adapter drops what
     * `read` has found. */
    void (*after)(void);

    /* After every action, if the contract observes pointers. */
    void (*pointers)(gcfuzz_pointers *pointers);

    /* Each returns the new object, after it has called gcfuzz_placed. */
    void *(*allocate_node)(int64_t number, bool nonmovable);
    void *(*allocate_string)(uint64_t length, bool nonmovable);
    void *(*allocate_array)(uint64_t length, bool nonmovable);
    void *(*allocate_weakref)(void *const *target); /* the root slot: allocating may move it */
    void *(*allocate_ephemeron)(void *const *key, void *const *value); /* root slots */
    void *(*allocate_old_string)(uint64_t length);
    void *(*prebuilt)(uint64_t index);

    void *(*read)(void *object, uint64_t field); /* must not collect: the walk calls it too */
    void (*write)(void *object, uint64_t field, void *value);
    void (*write_number)(void *node, int64_t number);
    bool (*read_weakref)(void *weakref); /* whether its object is alive */
    void *(*follow_weakref)(void *weakref); /* its object, or NULL; in place of read_weakref */
    void *(*read_ephemeron)(void *ephemeron); /* its value, or NULL if its key is dead */
    void (*copy_array)(void *source, void *dest, uint64_t source_start, uint64_t dest_start,
                       uint64_t length);
    void (*fill_array)(void *array, void *value); /* each item becomes the object, or NULL */
    void (*move_array)(void *array, uint64_t source_start, uint64_t dest_start, uint64_t length);
    uint64_t (*take_identity)(void *object);
    void (*pin)(void *string);
    void (*unpin)(void *string);
    void (*register_finalizer)(void *const *node, int64_t number); /* the root slot */
    void (*unregister_finalizer)(void *node);
    void (*run_finalizers)(void); /* calls gcfuzz_finalized for each pending one, in order */
    void (*set_callback)(int64_t length); /* -1: no more */
    void (*add_memory_pressure)(uint64_t extra_bytes);

    void (*collect_minor)(void);
    void (*collect_progress)(void);
    void (*collect_step)(void);
    void (*collect_full)(void);

    void (*enable_sampling)(uint64_t period_bytes);
    void (*disable_sampling)(bool report);
    void (*pause_sampling)(void);
    void (*resume_sampling)(void);
    void (*fork)(void);

    /* The characters of a string: item_bytes for each, as many as its description says. With this,
     * the kit writes into each new string, and compares all of them when it is asked to. */
    unsigned char *(*contents)(void *string);
} gcfuzz_adapter;

/* Answer lines until the input ends. Returns an exit code for main. */
int gcfuzz_serve(const gcfuzz_adapter *adapter);

/* The roots: `count` slots, each with an object. A moving collector updates them in place. */
typedef struct {
    void **slots;
    size_t count, capacity;
} gcfuzz_root_list;

extern gcfuzz_root_list gcfuzz_roots;

/* More roots: objects that were finalized, and that may be resurrected until finalizers run again. */
extern gcfuzz_root_list gcfuzz_kept;

/* To be called by the collector while it carries out an action. */

void gcfuzz_sampled(void);   /* a sample was taken */
void gcfuzz_collected(void); /* a minor collection takes place */

/* The same collection says what became of the samples: once, then for each of them. */
void gcfuzz_report_begins(uint64_t memory_used_bytes, uint64_t arena_bytes, uint64_t major_state);
void gcfuzz_reported(uint32_t type_index, bool outside, bool survived);

/* After a full collection: the bytes in the old space, and the bytes of all arenas. */
void gcfuzz_memory(uint64_t used_bytes, uint64_t arena_bytes);

/* The state of the major collection, after every action. */
void gcfuzz_state(uint64_t state);

/* The bytes counted for the object just allocated, and where it lies in the nursery, if there. */
void gcfuzz_placed(uint64_t size_bytes, bool outside, int64_t at);

/* A finalizer ran, which was registered with that number. */
void gcfuzz_finalized(int64_t number, void *node);

/* The action could not be carried out: "NAME: what happened", with printf's conversions. */
void gcfuzz_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
