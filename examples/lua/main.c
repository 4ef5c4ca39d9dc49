/* Lua 5.4 behind the adapter kit of examples/native. Its sampler is in sampler.c.
 *
 * A node is a table {number, reference, reference}, or a full userdata with two user values. An
 * array is a table {length as a float, item, ...}. A string is a full userdata, since Lua's own
 * strings never leave a weak table. A weak reference is a table with weak values, an ephemeron one
 * with weak keys.
 *
 * Invariant: between two actions the table KNOWN refers to the objects in the kit's roots, and to
 * nothing else. The kit names an object by its address (lua_topointer), which Lua does not change.
 */
#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>
#include <string.h>

#include "gcfuzz_adapter.h"
#include "sampler.h"

enum { NODE = 1, ARRAY, STRING, WEAKREF, EPHEMERON };
/* Places on Lua's stack, which is a root. */
enum { KNOWN = 1, PENDING, WATCHED, FINALIZING, WEAK_VALUES, WEAK_KEYS };
enum { OBJECTS_MAX = 4096, REFERENCES = 2, SENTINELS = 2 };
/* The collections until a dead object's finalizer is called; see `start`. */
enum { WITHIN_CYCLES = 3 };
enum { GENERATIONAL, PAUSE, STEP_BITS, USERDATA, FAILURES };
/* What Lua 5.4 takes on a machine of 64 bits. */
enum { TABLE_BYTES = 56, ITEM_BYTES = 16, ENTRY_BYTES = 24, USERDATA_BYTES = 40, STRING_BYTES = 32 };

static const gcfuzz_setting SETTINGS[] = {
    [GENERATIONAL] = {.name = "generational", .initial = 0, .minimum = 0, .maximum = 1},
    /* Percent of the live bytes at which a collection begins; 0 if none begins by itself. */
    [PAUSE] = {.name = "pause", .initial = 200, .minimum = 0, .maximum = 200, .multiple = 100},
    [STEP_BITS] = {.name = "step_bits", .initial = 13, .minimum = 4, .maximum = 13},
    [USERDATA] = {.name = "userdata", .initial = 0, .minimum = 0, .maximum = 1},
    /* One in so many blocks fails at first, and Lua collects in the middle of an allocation. */
    [FAILURES] = {.name = "failures", .initial = 0, .minimum = 0, .maximum = 3},
};

static gcfuzz_adapter adapter;
static bool is_as_documented;
static lua_State *lua;
static bool nodes_are_userdata;

static uint64_t idle_bytes; /* without an object of the mutator */

/* ---- Objects by their addresses ---- */

static const void *known[OBJECTS_MAX];
static size_t known_count; /* places in use, some of them with no object */

static void forget(size_t place)
{
    known[place] = NULL;
    lua_pushnil(lua);
    lua_rawseti(lua, KNOWN, (lua_Integer)place + 1);
}

/* Pop the object on top of the stack; a root refers to it until it is forgotten. */
static void *learn(void)
{
    const void *object = lua_topointer(lua, -1);
    size_t place = 0, free_place = known_count;
    while (place < known_count && known[place] != object) {
        if (known[place] == NULL)
            free_place = place;
        place++;
    }
    if (place == known_count)
        place = free_place;
    if (object == NULL || place == OBJECTS_MAX) {
        lua_pop(lua, 1);
        if (object != NULL)
            gcfuzz_failed("AdapterError: more than %d objects", OBJECTS_MAX);
        return NULL;
    }
    known_count += place == known_count;
    known[place] = object;
    lua_rawseti(lua, KNOWN, (lua_Integer)place + 1);
    return (void *)(uintptr_t)object;
}

static void push(const void *object)
{
    size_t place = 0;
    while (place < known_count && known[place] != object)
        place++;
    if (object == NULL || place == known_count)
        lua_pushnil(lua);
    else
        lua_rawgeti(lua, KNOWN, (lua_Integer)place + 1);
}

static bool is_in(const gcfuzz_root_list *list, const void *object)
{
    for (size_t slot = 0; slot < list->count; slot++)
        if (list->slots[slot] == object)
            return true;
    return false;
}

/* ---- Collections ---- */

/* Lua does not report them. Each clears the weak references to these unreachable tables, except that
 * a step may mark one that is being made. So there are two. */
static bool is_watched[SENTINELS];
static bool has_collected;

static void look_for_collections(void)
{
    for (int sentinel = 0; sentinel < SENTINELS; sentinel++) {
        bool is_alive = lua_rawgeti(lua, WATCHED, sentinel + 1) != LUA_TNIL;
        lua_pop(lua, 1);
        has_collected |= is_watched[sentinel] && !is_alive;
        is_watched[sentinel] = is_alive;
    }
}

/* To be called before what may collect. Making a sentinel may collect, too: before the action. */
static void watch(void)
{
    for (int sentinel = 0; sentinel < SENTINELS; sentinel++) {
        look_for_collections();
        if (is_watched[sentinel])
            continue;
        lua_newtable(lua);
        lua_rawseti(lua, WATCHED, sentinel + 1);
        is_watched[sentinel] = true;
    }
}

static void after(void)
{
    look_for_collections();
    if (has_collected)
        gcfuzz_collected();
    has_collected = false;
    for (size_t place = 0; place < known_count; place++)
        if (known[place] && !is_in(&gcfuzz_roots, known[place]) &&
            !is_in(&gcfuzz_kept, known[place]))
            forget(place);
    while (known_count && known[known_count - 1] == NULL)
        known_count--;
}

static void collect_full(void)
{
    watch();
    lua_gc(lua, LUA_GCCOLLECT);
    gcfuzz_memory(live_bytes - idle_bytes, 0);
}

/* A step, or in generational mode a young collection. */
static void collect_step(void)
{
    watch();
    lua_gc(lua, LUA_GCSTEP, 0);
}

/* ---- Finalizers ---- */

static struct {
    const void *node;
    int64_t number;
} registered[OBJECTS_MAX];
static int64_t pending[OBJECTS_MAX]; /* the numbers of the nodes in PENDING */
static size_t registered_count, pending_count;

/* The place of a node among the registered ones; their count if it is none of them. */
static size_t registration_of(const void *node)
{
    size_t place = 0;
    while (place < registered_count && registered[place].node != node)
        place++;
    return place;
}

/* Lua's `__gc`. It allocates nothing. */
static int finalize(lua_State *state)
{
    size_t place = registration_of(lua_topointer(state, 1));
    if (state != lua || place == registered_count || pending_count == OBJECTS_MAX)
        return 0; /* the state is closed, or a node has died whose number is unknown */
    pending[pending_count++] = registered[place].number;
    registered[place] = registered[--registered_count];
    lua_rawgeti(state, LUA_REGISTRYINDEX, PENDING);
    lua_pushvalue(state, 1);
    lua_rawseti(state, -2, (lua_Integer)pending_count);
    return 0;
}

static void register_finalizer(void *const *node, int64_t number)
{
    if (registered_count == OBJECTS_MAX) {
        gcfuzz_failed("AdapterError: more than %d finalizers", OBJECTS_MAX);
        return;
    }
    registered[registered_count].node = *node;
    registered[registered_count++].number = number;
    push(*node);
    lua_pushvalue(lua, FINALIZING);
    lua_setmetatable(lua, -2);
    lua_pop(lua, 1);
}

static void unregister_finalizer(void *node)
{
    size_t place = registration_of(node);
    if (place < registered_count)
        registered[place] = registered[--registered_count];
    push(node);
    lua_pushnil(lua);
    lua_setmetatable(lua, -2);
    lua_pop(lua, 1);
}

static void run_finalizers(void)
{
    for (size_t place = 0; place < pending_count; place++) {
        lua_rawgeti(lua, PENDING, (lua_Integer)place + 1);
        gcfuzz_finalized(pending[place], learn());
        lua_pushnil(lua);
        lua_rawseti(lua, PENDING, (lua_Integer)place + 1);
    }
    pending_count = 0;
}

/* ---- Allocation ---- */

static void begin(void)
{
    watch();
    new_bytes = 0;
    is_allocating = true;
}

static void *allocated(void)
{
    is_allocating = false;
    gcfuzz_placed(new_bytes, true, 0);
    return learn();
}

static void *allocate_node(int64_t number, bool nonmovable)
{
    (void)nonmovable; /* nothing ever moves */
    begin();
    if (nodes_are_userdata) {
        *(int64_t *)lua_newuserdatauv(lua, sizeof number, REFERENCES) = number;
    } else {
        lua_createtable(lua, 1 + REFERENCES, 0);
        lua_pushinteger(lua, number);
        lua_rawseti(lua, -2, 1);
    }
    return allocated();
}

static void *allocate_array(uint64_t length, bool nonmovable)
{
    (void)nonmovable;
    begin();
    lua_createtable(lua, 1 + (int)length, 0);
    lua_pushnumber(lua, (lua_Number)length);
    lua_rawseti(lua, -2, 1);
    return allocated();
}

static void *allocate_string(uint64_t length, bool nonmovable)
{
    (void)nonmovable;
    begin();
    lua_newuserdatauv(lua, length, 0);
    return allocated();
}

static void *allocate_weakref(void *const *target)
{
    begin();
    lua_createtable(lua, 1, 0);
    lua_pushvalue(lua, WEAK_VALUES);
    lua_setmetatable(lua, -2);
    push(*target);
    lua_rawseti(lua, -2, 1);
    return allocated();
}

static void *allocate_ephemeron(void *const *key, void *const *value)
{
    begin();
    lua_createtable(lua, 0, 1);
    lua_pushvalue(lua, WEAK_KEYS);
    lua_setmetatable(lua, -2);
    push(*key);
    push(*value);
    lua_rawset(lua, -3);
    return allocated();
}

/* ---- Reading and writing ---- */

static bool has_metatable(int place)
{
    bool is_same = lua_getmetatable(lua, -1) && lua_rawequal(lua, -1, place);
    lua_settop(lua, WEAK_KEYS + 1);
    return is_same;
}

static void describe_table(gcfuzz_description *description)
{
    if (has_metatable(WEAK_VALUES)) {
        description->type_index = WEAKREF;
    } else if (has_metatable(WEAK_KEYS)) {
        description->type_index = EPHEMERON;
    } else {
        lua_rawgeti(lua, -1, 1);
        bool is_node = lua_isinteger(lua, -1);
        int64_t number = is_node ? lua_tointeger(lua, -1) : (int64_t)lua_tonumber(lua, -1);
        uint64_t references = is_node ? REFERENCES : (uint64_t)number;
        *description = (gcfuzz_description){is_node ? NODE : ARRAY, number, references};
        lua_pop(lua, 1);
    }
}

static void describe(const void *object, gcfuzz_description *description)
{
    push(object);
    int type = lua_type(lua, -1);
    if (type == LUA_TTABLE) {
        describe_table(description);
    } else if (type != LUA_TUSERDATA) {
        gcfuzz_failed("DanglingReferenceError: a reference leads to no object");
    } else if (lua_getiuservalue(lua, -1, 1) == LUA_TNONE) {
        *description = (gcfuzz_description){STRING, (int64_t)lua_rawlen(lua, -2), 0};
        lua_pop(lua, 1);
    } else {
        *description = (gcfuzz_description){NODE, *(int64_t *)lua_touserdata(lua, -2), REFERENCES};
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
}

/* Push the reference of the object below the top. */
static void get(int place, uint64_t field)
{
    if (lua_type(lua, place) == LUA_TUSERDATA)
        lua_getiuservalue(lua, place, (int)field + 1);
    else
        lua_rawgeti(lua, place, (lua_Integer)field + 2);
}

/* Pop what becomes the reference. */
static void set(int place, uint64_t field)
{
    if (lua_type(lua, place) == LUA_TUSERDATA)
        lua_setiuservalue(lua, place, (int)field + 1);
    else
        lua_rawseti(lua, place, (lua_Integer)field + 2);
}

/* Pop two values; the one on top is the object that is found, if any. */
static void *found(void)
{
    void *object = learn();
    lua_pop(lua, 1);
    return object;
}

static void *read_reference(void *object, uint64_t field)
{
    push(object);
    get(lua_gettop(lua), field);
    return found();
}

static void write_reference(void *object, uint64_t field, void *value)
{
    push(object);
    push(value);
    set(lua_gettop(lua) - 1, field);
    lua_pop(lua, 1);
}

static void write_number(void *node, int64_t number)
{
    push(node);
    if (lua_type(lua, -1) == LUA_TUSERDATA) {
        *(int64_t *)lua_touserdata(lua, -1) = number;
    } else {
        lua_pushinteger(lua, number);
        lua_rawseti(lua, -2, 1);
    }
    lua_pop(lua, 1);
}

static void copy_array(void *source, void *dest, uint64_t source_start, uint64_t dest_start,
                       uint64_t length)
{
    push(source);
    push(dest);
    int from = lua_gettop(lua) - 1, to = from + 1;
    bool is_backwards = source == dest && source_start < dest_start;
    for (uint64_t index = 0; index < length; index++) {
        uint64_t item = is_backwards ? length - 1 - index : index;
        get(from, source_start + item);
        set(to, dest_start + item);
    }
    lua_pop(lua, 2);
}

static void move_array(void *array, uint64_t source_start, uint64_t dest_start, uint64_t length)
{
    copy_array(array, array, source_start, dest_start, length);
}

static void fill_array(void *array, void *value)
{
    gcfuzz_description description;
    describe(array, &description);
    for (uint64_t item = 0; item < description.references; item++)
        write_reference(array, item, value);
}

static void *follow_weakref(void *weakref)
{
    push(weakref);
    lua_rawgeti(lua, -1, 1);
    return found();
}

static void *read_ephemeron(void *ephemeron)
{
    push(ephemeron);
    lua_pushnil(lua);
    if (!lua_next(lua, -2)) {
        lua_pop(lua, 1);
        return NULL;
    }
    lua_remove(lua, -2);
    return found();
}

static unsigned char *contents(void *string)
{
    push(string);
    unsigned char *bytes = lua_touserdata(lua, -1);
    lua_pop(lua, 1);
    return bytes;
}

/* ---- The rest of what the kit asks ---- */

static void push_weak_metatable(const char *mode)
{
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, mode);
    lua_setfield(lua, -2, "__mode");
}

/* Runs in a protected call, which makes the record that `__gc` is called with later. */
static int nothing(lua_State *state)
{
    (void)state;
    return 0;
}

static void open_state(const int64_t *values)
{
    lua_State *closed = lua;
    lua = NULL; /* so that finalizers of the closed one do nothing */
    if (closed)
        lua_close(closed);
    live_bytes = known_count = registered_count = pending_count = 0;
    lua = lua_newstate(reallocate, NULL);
    if (lua == NULL)
        abort();
    lua_gc(lua, LUA_GCSTOP);
    lua_createtable(lua, OBJECTS_MAX, 0);
    lua_createtable(lua, OBJECTS_MAX, 0);
    lua_createtable(lua, SENTINELS, 0);
    lua_createtable(lua, 0, 1);
    lua_pushcfunction(lua, finalize);
    lua_setfield(lua, -2, "__gc");
    push_weak_metatable("v");
    push_weak_metatable("k");
    lua_pushvalue(lua, PENDING);
    lua_rawseti(lua, LUA_REGISTRYINDEX, PENDING);
    lua_pushvalue(lua, WEAK_VALUES);
    lua_setmetatable(lua, WATCHED);
    lua_pushcfunction(lua, nothing);
    if (lua_pcall(lua, 0, 0, 0) != LUA_OK)
        abort();
    if (values[GENERATIONAL])
        lua_gc(lua, LUA_GCGEN, 0, 0);
    else
        lua_gc(lua, LUA_GCINC, (int)values[PAUSE], 0, (int)values[STEP_BITS]);
    lua_gc(lua, LUA_GCCOLLECT);
    idle_bytes = live_bytes;
    if (values[PAUSE])
        lua_gc(lua, LUA_GCRESTART);
}

/* What Lua does where its manual (2.5.3, 2.5.4) promises something else. */
static void state_exceptions(gcfuzz_finalizers *finalizers)
{
    /* "removed from weak values before running their finalizers": not from a weak table that is
     * resurrected itself. */
    finalizers->weak_in_dead = "kept";
    /* "in the reverse order that the objects were marked": the first mark counts. */
    finalizers->again = "old_place";
    /* "freed in the next garbage-collection cycle": so is an object that only had a finalizer. */
    finalizers->taken_back = "kept_once";
}

static const char *const OBSERVES[] = {"samples", "minors", "size", "outside", "value", "alive",
                                       "graph", "finalized", "memory", NULL};

static void start(const int64_t *values, gcfuzz_contract *contract)
{
    memset(is_watched, 0, sizeof is_watched);
    has_collected = is_allocating = false;
    disable_sampling(false);
    nodes_are_userdata = values[USERDATA];
    failures_every = (uint64_t)values[FAILURES];
    blocks = 0;
    open_state(values);
    bool is_generational = values[GENERATIONAL];
    adapter.collect_minor = is_generational ? collect_step : NULL;
    adapter.collect_step = is_generational ? NULL : collect_step;
    uint64_t node_bytes = TABLE_BYTES + (1 + REFERENCES) * ITEM_BYTES;
    if (nodes_are_userdata)
        node_bytes = USERDATA_BYTES + REFERENCES * ITEM_BYTES + sizeof(int64_t);
    *contract = (gcfuzz_contract){
        .nursery_bytes = 4096, /* there is none: large_object_bytes says so */
        .node = {NODE, node_bytes, 0},
        .array = {ARRAY, TABLE_BYTES + ITEM_BYTES, ITEM_BYTES},
        .string = {STRING, STRING_BYTES, 1},
        .weakref = {WEAKREF, TABLE_BYTES + ITEM_BYTES, 0},
        .ephemeron = {EPHEMERON, TABLE_BYTES + ENTRY_BYTES, 0},
        .word_bytes = 1,
        .large_object_bytes = 1,
        .object_bytes_max = 65536,
        .sampling = {.minimum_bytes = 64, .maximum_bytes = 1 << 20, .multiple_bytes = 1,
                     .drops_when_disabled = true},
        /* An incremental step calls a few, and leaves the others to the next ones. */
        .finalizers = {.within = 1, .called = "later", .registrations = "one_at_a_time",
                       .order = "reverse_registration", .weak = "cleared_before"},
        .promises_memory = true,
        /* What was marked before it died stays until the next collection. In generational mode, a
         * full one in the middle of an allocation makes the new object old. */
        .limits_survivors = !is_generational || values[PAUSE] || values[FAILURES],
        .promises_collections = true,
        .steps = "open",
        .version = LUA_RELEASE,
        .observes = OBSERVES,
    };
    /* A cycle calls all finalizers before the next one begins. What was marked when it died takes
     * one cycle more. An old object has to wait for a major collection; and one that a failed block
     * causes calls none. */
    if (!is_generational && !values[FAILURES])
        contract->finalizers.within_collections = WITHIN_CYCLES;
    if (!is_as_documented)
        state_exceptions(&contract->finalizers);
}

static gcfuzz_adapter adapter = {
    .settings = SETTINGS,
    .setting_count = sizeof SETTINGS / sizeof *SETTINGS,
    .start = start,
    .after = after,
    .describe = describe,
    .allocate_node = allocate_node,
    .allocate_string = allocate_string,
    .allocate_array = allocate_array,
    .allocate_weakref = allocate_weakref,
    .allocate_ephemeron = allocate_ephemeron,
    .contents = contents,
    .read = read_reference,
    .write = write_reference,
    .write_number = write_number,
    .follow_weakref = follow_weakref,
    .read_ephemeron = read_ephemeron,
    .copy_array = copy_array,
    .fill_array = fill_array,
    .move_array = move_array,
    .register_finalizer = register_finalizer,
    .unregister_finalizer = unregister_finalizer,
    .run_finalizers = run_finalizers,
    .collect_full = collect_full,
    .enable_sampling = enable_sampling,
    .disable_sampling = disable_sampling,
    .pause_sampling = pause_sampling,
    .resume_sampling = resume_sampling,
};

int main(int count, char **arguments)
{
    is_as_documented = count > 1 && strcmp(arguments[1], "--as-documented") == 0;
    return gcfuzz_serve(&adapter);
}
