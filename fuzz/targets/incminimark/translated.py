"""The program of incminimark-c: a mutator in RPython, translated to C with PyPy's collector.

    PYTHONPATH=SOURCE python2.7 -m rpython --gc=incminimark -O2 translated.py CONSTANTS

CONSTANTS is `tests` or `shipped`: the cards, arenas and growth rates of the collector's own tests,
or those of PyPy. With `compiled` this is the base of `compiled.py`, the program of incminimark-jit.
Python 2.7 only; gcfuzz never imports this program.

It does with objects what any RPython program does, so allocations, write barriers, weak references,
identities and copies are those that the translation makes. `translated.c` has everything else.

Invariant: it allocates nothing but what an action asks for. The roots are words of the shadow
stack, and a new operation, `gc_gcfuzz`, calls what only the collector's class offers.

Finalizers are in one queue, as in the untranslated driver. That of a destructor is the index of
what C knows about its node, since a destructor may only read its object.
"""
# Python 2.7 has no annotations and no iterable unpacking, and RPython has few ways to dispatch.
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, C901, D103, PLR0912, PTH100, PTH118, PTH120
# ruff: noqa: PTH123, RUF005, SLF001, UP004, UP031
# mypy: ignore-errors

import json
import os
import sys

import contract
import sample_limit
from rpython.annotator import model as annotation
from rpython.memory.gc import incminimark
from rpython.memory.gc.incminimark import IncrementalMiniMarkGC
from rpython.memory.gc.minimarkpage import ArenaCollection
from rpython.memory.gctransform.framework import BaseFrameworkGCTransformer
from rpython.memory.gctypelayout import WEAKREF
from rpython.rlib import rgc
from rpython.rlib.objectmodel import specialize
from rpython.rlib.rarithmetic import r_uint
from rpython.rtyper.annlowlevel import llhelper
from rpython.rtyper.lltypesystem import llarena, llgroup, llmemory, lltype, rffi
from rpython.rtyper.lltypesystem.lloperation import LL_OPERATIONS, LLOp, llop
from rpython.translator.tool.cbuild import ExternalCompilationInfo

C_PART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "translated.c")
COMPILED_PART = os.path.join(os.path.dirname(C_PART), "compiled.c")
TESTS, SHIPPED, COMPILED = range(3)
CONSTANTS = ("tests", "shipped", "compiled").index(sys.argv[-1])
HAS_REPORTS = hasattr(IncrementalMiniMarkGC, "gc_set_allocation_sampling")
if CONSTANTS == COMPILED and not HAS_REPORTS:
    sample_limit.install()
HAS_SAMPLING = hasattr(IncrementalMiniMarkGC, "gc_set_allocation_sampling")
HAS_FILL, HAS_MOVE = hasattr(rgc, "ll_arrayfill"), hasattr(rgc, "ll_arraymove")
ACTIONS = contract.actions_of(HAS_SAMPLING) + contract.FINALIZER_ACTIONS
ACTIONS += ("check_contents", "allocate_group")
BEGIN_TRACE, END = len(ACTIONS), -1
FIELDS = (
    ("root", "field", "value", "number", "length", "nonmovable", "source", "dest")
    + ("source_start", "dest_start", "index", "extra_bytes", "period_bytes", "report", "thread")
    + ("identity", "destructor", "keep")
)
NULL_SLOT = -1
NODE, WEAK, ARRAY, STRING, DESTRUCTIBLE = range(1, 6)
PREBUILT_MAX = 8
ROOTS_MAX = 1024 if CONSTANTS == COMPILED else 4096
ROTATING_NURSERIES = 6
"""As many as with PYPY_GC_NURSERY_DEBUG."""


class ActionCode(object):
    """The codes of the actions."""


class FieldCode(object):
    """The codes of their fields."""


class SettingCode(object):
    """The codes of the settings."""


def number_names(codes, names):
    for code, name in enumerate(names):
        setattr(codes, name, code)


number_names(ActionCode, ACTIONS)
number_names(FieldCode, FIELDS)

# The settings and the contract.

TEST_PARAMETERS = {
    "page_size": 128,
    # Three pages wherever malloc() puts an arena.
    "arena_size": 496,
    "small_request_threshold": 40,
    "card_page_indices": 4,
    "major_collection_threshold": 2.5,
    "growth_rate_max": 2.5,
}
COMPILED_PARAMETERS = {
    "nursery_size": 2**18,
    "page_size": 1024,
    "arena_size": 2**15,
    "card_page_indices": contract.COMPILED_CARD_ITEMS,
    "large_object": contract.COMPILED_LARGE_BYTES,
}
PARAMETERS = dict(IncrementalMiniMarkGC.TRANSLATION_PARAMS, read_from_env=False, nursery_size=65536)
if CONSTANTS == TESTS:
    PARAMETERS.update(TEST_PARAMETERS)
elif CONSTANTS == COMPILED:
    PARAMETERS.update(COMPILED_PARAMETERS)
    # Computed when the class is made, from its own parameters.
    IncrementalMiniMarkGC.JIT_WB_CARD_PAGE_SHIFT = contract.COMPILED_CARD_ITEMS.bit_length() - 1
IncrementalMiniMarkGC.TRANSLATION_PARAMS = PARAMETERS
PAGE_HEADER_BYTES = 32
NURSERY_BYTES_MIN = 0 if CONSTANTS == COMPILED else -(-PARAMETERS["page_size"] // 24) * 8
"""A third of a page: with less, a step of the sweep takes no page, and the sweep never ends."""
THRESHOLD_PERCENT = int(PARAMETERS["major_collection_threshold"] * 100)
OLD_SPACE = {
    "arena_object_bytes_max": PARAMETERS["small_request_threshold"],
    "arena_bytes": PARAMETERS["arena_size"],
    "arena_pages": (PARAMETERS["arena_size"] - 16) // PARAMETERS["page_size"],
    "page_room_bytes": PARAMETERS["page_size"] - PAGE_HEADER_BYTES,
    "card_items": PARAMETERS["card_page_indices"],
}
if CONSTANTS == COMPILED:
    SETTINGS = contract.COMPILED_SETTINGS
else:
    SETTINGS = contract.SETTINGS + [
        contract.setting("shipped_constants", 0, 0, 1, choices=[0, 0, 0, 1], of_process=True)
    ]
number_names(SettingCode, [each["name"] for each in SETTINGS])


def contract_templates():
    """The contracts' lines, by the names of macros."""
    config = {each["name"]: each["default"] for each in SETTINGS}
    stated = contract.contract_of(config, HAS_SAMPLING, SETTINGS, OLD_SPACE, THRESHOLD_PERCENT)
    if CONSTANTS == COMPILED:
        compiled = contract.compiled(with_contents(stated), HAS_REPORTS)
        lines = {
            "CONTRACT_OF_HEAP": contract.of_heap(compiled),
            "INTERPRETED": contract.interpreted(compiled),
            "CONTRACT": compiled,
        }
        for name in sorted(lines):
            lines[name + "_AS_DOCUMENTED"] = contract.as_documented(lines[name])
        for name in ("INTERPRETED", "CONTRACT"):
            more = contract.with_pins(contract.with_finalizers(lines[name]))
            lines[name + "_WITH_FINALIZERS"] = more
    else:
        lines = {"CONTRACT": stated, "CONTRACT_WITH_FINALIZERS": contract.with_finalizers(stated)}
        lines = {name: with_contents(each) for name, each in lines.items()}
    return {name: contract_template(each) for name, each in lines.items()}


def with_contents(stated):
    return dict(
        stated,
        actions=stated["actions"] + ["check_contents"],
        observes=stated["observes"] + ["contents"],
        contents="bytes",
    )


def contract_template(stated):
    """A contract's line. `translated.c` replaces @0 to @3 by figures, and @P by the prebuilt."""
    layout = dict(stated["layout"], large_object_bytes="@1")
    stated = dict(stated, nursery_bytes="@0", layout=layout, prebuilt=["@P"])
    if "pin" in stated["actions"]:
        stated["pins_max"] = "@2"
    if stated["old_space"]:
        stated["old_space"] = dict(stated["old_space"], threshold_bytes="@3")
    line = json.dumps({"contract": stated}, sort_keys=True)
    for name in "0123P":
        line = line.replace('"@%s"' % name, "@" + name)
    return line


# The other side, in C.


def c_enum(names, end):
    names = [name.upper() for name in names]
    return "enum { %s };\n" % ", ".join(names + [end])


def c_strings(name, values):
    return "static const char *const %s[] = {%s};\n" % (name, ", ".join(map(json.dumps, values)))


def c_text(name, value):
    return "#define %s %s\n" % (name, json.dumps(value))


STATED_CONTRACT = (
    'getenv("GCFUZZ_FINALIZERS") ? CONTRACT_WITH_FINALIZERS : CONTRACT',
    "compiled_contract()",
)
OPERATIONS = (
    ("end", "elsewhere", "new_node", "new_string", "new_array", "new_string_of", "new_array_of")
    + ("write_prev", "write_next", "write_item", "write_item_at", "write_number", "forget_last")
    + ("read_prev",)
    + ("read_next", "read_item", "read_item_at", "node_number", "array_length", "string_length")
)
"""The operations of `compiled.py`. Those that end in `of` read a length from memory, and those that
end in `at` an index."""


def c_source():
    """The constants that `translated.c` shares with this program, and that file."""
    defaults = [CONSTANTS if "of_process" in each else each["default"] for each in SETTINGS]
    of_process = [str(int("of_process" in each)) for each in SETTINGS]
    node, array = {"kind": "node"}, {"kind": "array", "length": contract.PREBUILT_ARRAY_LENGTH}
    parts = [
        c_enum(ACTIONS, "BEGIN_TRACE"),
        c_enum(FIELDS, "FIELDS_END"),
        c_enum([each["name"] for each in SETTINGS], "SETTINGS_END"),
        c_strings("ACTION_NAMES", ACTIONS),
        c_strings("FIELD_NAMES", FIELDS),
        c_strings("SETTING_NAMES", [each["name"] for each in SETTINGS]),
        "static const long DEFAULT_SETTINGS[] = {%s};\n" % ", ".join(map(str, defaults)),
        "static const int OF_PROCESS[] = {%s};\n" % ", ".join(of_process),
        "#define ROOTS_MAX %d\n" % ROOTS_MAX,
        "#define MEMBERS_MAX %d\n" % contract.GROUPS["members_max"],
        "#define NAMES_SAMPLED %d\n" % (not HAS_REPORTS),
        "#define GUARDS_MAX %d\n" % contract.GUARDS_MAX,
        "#define SHOWS_OLD_SPACE %d\n" % (CONSTANTS != COMPILED),
        "#define PREBUILT_NODES_MAX %d\n#define PREBUILT_ARRAYS_MAX %d\n" % (2 * (PREBUILT_MAX,)),
        "#define SAMPLES_MAX %d\n#define MINORS_MAX %d\n"
        % (contract.SAMPLES_MAX, contract.MINORS_MAX),
        "#define MINORS_PER_FIGURE %d\n" % contract.MINORS_PER_FIGURE,
        "#define THRESHOLD_PERCENT %d\n" % THRESHOLD_PERCENT,
        "#define NURSERY_BYTES_MIN %d\n" % NURSERY_BYTES_MIN,
        c_text("PREBUILT_NODE", json.dumps(node)),
        c_text("PREBUILT_ARRAY", json.dumps(array)),
        "#define STATED_CONTRACT (%s)\n" % STATED_CONTRACT[CONSTANTS == COMPILED],
    ]
    parts += [c_text(*each) for each in contract_templates().items()]
    if CONSTANTS == COMPILED:
        parts.append(c_enum(["op_" + each for each in OPERATIONS], "OPERATIONS_END"))
        parts.append("static const char *compiled_contract(void);\n")
    for path in [C_PART, COMPILED_PART][: 1 + (CONSTANTS == COMPILED)]:
        with open(path) as source:
            parts.append(source.read())
    return "".join(parts)


CALLBACK = lltype.Ptr(lltype.FuncType([lltype.Signed], lltype.Void))
C_TYPES = {
    lltype.Signed: "long",
    lltype.Float: "double",
    lltype.Void: "void",
    llmemory.Address: "void *",
    CALLBACK: "void (*)(long)",
}
Signed, Void, Address = lltype.Signed, lltype.Void, llmemory.Address
INFO = ExternalCompilationInfo(separate_module_sources=[c_source()])


def external(name, result, *arguments):
    """A function of `translated.c`."""
    types = ", ".join(C_TYPES[each] for each in arguments) or "void"
    declaration = "RPY_EXTERN %s gcfuzz_%s(%s);" % (C_TYPES[result], name, types)
    return rffi.llexternal(
        "gcfuzz_" + name,
        list(arguments),
        result,
        compilation_info=INFO.merge(ExternalCompilationInfo(post_include_bits=[declaration])),
        sandboxsafe=True,
        _nowrapper=True,
        random_effects_on_gcobjs=False,
    )


begin = external("begin", Void, Address, Address, CALLBACK)
roots_bytes = external("roots_bytes", Signed)
set_type = external("type", Void, Signed, Address, Signed)
set_prebuilt = external("prebuilt", Void, Signed, Address)
next_action = external("next", Signed)
field = external("field", Signed, Signed)
setting = external("setting", Signed, Signed)
kind_of = external("kind", Signed, Signed)
root_address = external("root", Address, Signed)
append = external("append", Void, Address)
drop = external("drop", Void, Address)
refuse = external("refuse", Void)
new_destructor = external("new_destructor", Signed)
destroyed = external("destroyed", Void, Signed)
pending = external("pending", Void, Signed)
taken = external("taken", Void, Address)
type_id = external("type_id", Signed, Signed)
copy_items = external("copy_items", Void, Address, Address, Signed, Signed, Signed)
tell_identity = external("identity", Void, Signed)
answer = external("answer", Void, Signed)
happened = external("happened", Void, Signed)
sampled = external("sampled", Void, Address)
collected = external("collected", Void)
reported = external("reported", Void, Address, Signed)
show_figures = external(
    "figures", Void, Address, Signed, Address, Address, Address, Address, Signed, Signed, Signed
)

# The collector.

CONFIGURE, FIGURES, STEP, PRESSURE, OLD_STRING, ENABLE, FORKED, FINALIZER = range(8)
collect_minor = IncrementalMiniMarkGC._minor_collection.im_func
run_callbacks = IncrementalMiniMarkGC.rrc_invoke_callback.im_func
mark_to_run = IncrementalMiniMarkGC.mark_finalizer_to_run.im_func
collect_step = getattr(
    IncrementalMiniMarkGC, "collect_step", IncrementalMiniMarkGC.debug_gc_step
).im_func
PRESSURE_TAKES_ADDRESS = (
    "adr" in IncrementalMiniMarkGC.raw_malloc_memory_pressure.__code__.co_varnames
)


def _minor_collection(gc):
    happened(ord("M"))
    collect_minor(gc)


def rrc_invoke_callback(gc):
    """A translated program runs due callbacks and finalizers here."""
    run_callbacks(gc)
    collected()


def mark_finalizer_to_run(gc, fq_index, obj):
    """The index of a queue is the number of a finalizer."""
    pending(fq_index)
    mark_to_run(gc, 0, obj)


class NoProfiler(object):
    """Replaces the profiler that the sampling fork calls."""

    cintf = None


NO_PROFILER = NoProfiler()


def _get_vmprof():
    return NO_PROFILER


def _vmprof_allocation_sample_now(gc, address):
    """Only without reports is this the address of what is sampled."""
    happened(ord("s"))
    if not HAS_REPORTS:
        sampled(address)


def _cintf_vmprof_report_minor_gc(gc, array, length):
    reported(llmemory.cast_ptr_to_adr(array), length)


def _get_first_sample_offset(gc):
    return gc.sample_allocated_bytes


HUGE_BYTES, HUGE_COUNT = 1e15, 2**40
free_large = IncrementalMiniMarkGC.free_unvisited_rawmalloc_objects_step.im_func
free_pages = ArenaCollection.mass_free_incremental.im_func


def free_unvisited_rawmalloc_objects_step(gc, _):
    """However many objects the JIT has, one step sweeps all large ones."""
    return free_large(gc, HUGE_COUNT)


def mass_free_incremental(arenas, ok_to_free_func, _):
    """And one step all others."""
    return free_pages(arenas, ok_to_free_func, HUGE_COUNT)


def configure(gc, nursery_bytes, large_object_bytes):
    """Replace the nursery of a heap that is empty."""
    # RPython needs to know.
    assert nursery_bytes >= 0
    assert large_object_bytes >= 0
    gc.nursery_size = nursery_bytes
    gc.nonlarge_max = large_object_bytes - 1
    if CONSTANTS == COMPILED:
        # However many objects the JIT has, one step marks all.
        gc.gc_increment_step = HUGE_COUNT
        # Only actions start major collections, and not what the JIT allocates.
        gc.min_heap_size = gc.next_major_collection_initial = HUGE_BYTES
        gc.next_major_collection_threshold = HUGE_BYTES
    else:
        gc.gc_increment_step = nursery_bytes * 4
        gc.min_heap_size = 0.0
    gc.max_number_of_pinned_objects = nursery_bytes / (large_object_bytes * 2)
    gc.size_objects_made_old = r_uint(0)
    gc.threshold_objects_made_old = r_uint(0)
    gc.TEST_VISIT_SINGLE_STEP = setting(SettingCode.single_step_marking) == 1
    gc.allocate_nursery()
    # It fills what a minor collection leaves free, so that no reference into it looks right.
    gc.gc_nursery_debug = True
    # Those of PYPY_GC_DEBUG have another size.
    gc.debug_rotating_nurseries = lltype.nullptr(incminimark.NURSARRAY)
    if setting(SettingCode.moving_nursery) == 1:
        size = ROTATING_NURSERIES
        nurseries = lltype.malloc(incminimark.NURSARRAY, size, flavor="raw", track_allocation=False)
        for index in range(size):
            nurseries[index] = gc._alloc_nursery()
            llarena.arena_protect(nurseries[index], gc._nursery_memory_size(), True)
        gc.debug_rotating_nurseries = nurseries


def arena_bytes(gc):
    """The bytes of all arenas."""
    count = 0
    if gc.ac.current_arena:
        count += 1
    for pages in range(gc.ac.max_pages_per_arena):
        arena = gc.ac.arenas_lists[pages]
        while arena:
            count += 1
            arena = arena.nextarena
    return count * gc.ac.arena_size


def show(gc):
    """Show what an answer has of the collector's state."""
    top, sample_point = gc.nursery_top, llmemory.NULL
    if HAS_SAMPLING and gc.sample_point:
        top, sample_point = gc.real_nursery_top, gc.sample_point
    show_figures(
        gc.nursery,
        gc.nursery_size,
        gc.nursery_free,
        gc.nursery_top,
        top,
        sample_point,
        gc.gc_state,
        rffi.cast(lltype.Signed, gc.get_total_memory_used()),
        arena_bytes(gc),
    )


def gcfuzz(gc, what, first, second):
    """What `gc_gcfuzz` does."""
    if what == CONFIGURE:
        configure(gc, first, second)
    elif what == FIGURES:
        show(gc)
    elif what == STEP:
        collect_step(gc)
    elif what == PRESSURE:
        if PRESSURE_TAKES_ADDRESS:
            gc.raw_malloc_memory_pressure(first, llmemory.NULL)
        else:
            gc.raw_malloc_memory_pressure(first)
    elif what == OLD_STRING:
        type_id = rffi.cast(llgroup.HALFWORD, first)
        append(gc.external_malloc(type_id, second, alloc_young=False))
    elif what == FINALIZER:
        gc.register_finalizer(first, object_in(second))
    elif HAS_SAMPLING:
        if what == ENABLE:
            gc.gc_set_allocation_sampling(first)
        elif what == FORKED:
            gc.after_fork(0)


_minor_collection._dont_inline_ = True
gcfuzz._dont_inline_ = True
REPLACED = [_minor_collection, rrc_invoke_callback, mark_finalizer_to_run, gcfuzz]
if HAS_SAMPLING:
    REPLACED += [_vmprof_allocation_sample_now, _cintf_vmprof_report_minor_gc]
    REPLACED += [_get_first_sample_offset]
    incminimark._get_vmprof = _get_vmprof
if CONSTANTS == COMPILED:
    REPLACED.append(free_unvisited_rawmalloc_objects_step)
    ArenaCollection.mass_free_incremental = mass_free_incremental
for function in REPLACED:
    setattr(IncrementalMiniMarkGC, function.__name__, function)

declare_functions = BaseFrameworkGCTransformer._declare_functions.im_func


def _declare_functions(transformer, collector, getfn, s_gc, *more):
    declare_functions(transformer, collector, getfn, s_gc, *more)
    number = annotation.SomeInteger()
    arguments = [s_gc, number, number, number]
    transformer.gcfuzz_ptr = getfn(collector.gcfuzz.im_func, arguments, annotation.s_None)


def gct_gc_gcfuzz(transformer, hop):
    """How a call of the new operation becomes one of the collector's method."""
    roots = transformer.push_roots(hop)
    arguments = [transformer.gcfuzz_ptr, transformer.c_const_gc] + hop.spaceop.args
    hop.genop("direct_call", arguments, resultvar=hop.spaceop.result)
    transformer.pop_roots(hop, roots)


for function in (_declare_functions, gct_gc_gcfuzz):
    setattr(BaseFrameworkGCTransformer, function.__name__, function)
LL_OPERATIONS["gc_gcfuzz"] = llop.gc_gcfuzz = LLOp(canmallocgc=True)
llop.gc_gcfuzz.opname = "gc_gcfuzz"

# Objects.

GCREF = llmemory.GCREF
NODE_FIELDS = (("x", Signed), ("prev", GCREF), ("next", GCREF))
NODES = lltype.GcStruct("gcfuzz_node", *NODE_FIELDS)
DESTRUCTIBLES = lltype.GcStruct("gcfuzz_destructible", *NODE_FIELDS, rtti=True)
ARRAYS = lltype.GcArray(GCREF)
CHARACTERS = lltype.Array(lltype.Char, hints={"immutable": True, "extra_item_after_alloc": 1})
STRINGS = lltype.GcStruct("gcfuzz_string", ("hash", Signed), ("chars", CHARACTERS))
PREBUILT_NODES = [lltype.malloc(NODES, immortal=True, zero=True) for _ in range(PREBUILT_MAX)]
PREBUILT_ARRAYS = [
    lltype.malloc(ARRAYS, contract.PREBUILT_ARRAY_LENGTH, immortal=True, zero=True)
    for _ in range(PREBUILT_MAX)
]


def object_in(slot):
    return llmemory.cast_adr_to_ptr(root_address(slot), GCREF)


def node_in(slot):
    return lltype.cast_opaque_ptr(lltype.Ptr(NODES), object_in(slot))


def array_in(slot):
    return lltype.cast_opaque_ptr(lltype.Ptr(ARRAYS), object_in(slot))


@specialize.ll()
def keep(obj):
    append(llmemory.cast_ptr_to_adr(obj))


def allocate_node(number, nonmovable):
    node = lltype.malloc(NODES, nonmovable=True) if nonmovable else lltype.malloc(NODES)
    node.x = number
    keep(node)


def allocate_destructible():
    node = lltype.malloc(DESTRUCTIBLES)
    node.x = new_destructor()
    keep(node)


def call_destructor(node):
    destroyed(node.x)


class Queue(rgc.FinalizerQueue):
    """It is emptied by an action."""

    def finalizer_trigger(self):
        """The queue is not empty."""


QUEUE = Queue()


def next_dead():
    """The next object of the queue, or a null."""
    return llop.gc_fq_next_dead(GCREF, rgc.FinalizerQueue._get_tag(QUEUE))


def run_finalizers():
    while True:
        obj = next_dead()
        if not obj:
            break
        taken(llmemory.cast_ptr_to_adr(obj))


@specialize.arg(0)
def allocate_items(kind, length, nonmovable):
    if nonmovable:
        keep(lltype.malloc(kind, length, nonmovable=True))
    else:
        keep(lltype.malloc(kind, length))


def allocate_weakref(slot):
    weakref = llop.weakref_create(llmemory.WeakRefPtr, object_in(slot))
    keep(llmemory.cast_weakrefptr_to_ptr(lltype.Ptr(WEAKREF), weakref))


def run_callback(length):
    """Allocate a string and drop it."""
    drop(llmemory.cast_ptr_to_adr(lltype.malloc(STRINGS, length)))


def write(slot, index, value):
    reference = reference_in(value)
    if kind_of(slot) == ARRAY:
        array_in(slot)[index] = reference
    elif index == 0:
        node_in(slot).prev = reference
    else:
        node_in(slot).next = reference


def copy_array(source, dest, source_start, dest_start, length):
    """Copy as RPython does; ranges that overlap, with the barrier that ll_arraycopy() has."""
    is_overlap = source == dest and abs(source_start - dest_start) < length
    if not is_overlap:
        rgc.ll_arraycopy(source, dest, source_start, dest_start, length)
    elif llop.gc_writebarrier_before_copy(
        lltype.Bool, source, dest, source_start, dest_start, length
    ):
        first, second = llmemory.cast_ptr_to_adr(source), llmemory.cast_ptr_to_adr(dest)
        copy_items(first, second, source_start, dest_start, length)
    else:
        move_items(source, source_start, dest_start, length)


def move_items(array, source_start, dest_start, length):
    """Move one item after the other, each with its barrier."""
    if source_start > dest_start:
        for index in range(length):
            array[dest_start + index] = array[source_start + index]
    else:
        for index in range(length - 1, -1, -1):
            array[dest_start + index] = array[source_start + index]


def move_array(array, source_start, dest_start, length):
    if HAS_MOVE:
        rgc.ll_arraymove(array, source_start, dest_start, length)
    else:
        move_items(array, source_start, dest_start, length)


def fill_array(array, reference):
    """Fill as ll_arrayfill() does: one barrier for all items."""
    if HAS_FILL:
        rgc.ll_arrayfill(array, reference)
    else:
        llop.gc_writebarrier(Void, array)
        for index in range(len(array)):
            llop.bare_setarrayitem(Void, array, index, reference)


def reference_in(slot):
    return object_in(slot) if slot >= 0 else lltype.nullptr(GCREF.TO)


# Actions.


def carry_out(action):
    if action == ActionCode.allocate_node and field(FieldCode.destructor) >= 0:
        allocate_destructible()
    elif action == ActionCode.allocate_node:
        allocate_node(field(FieldCode.number), field(FieldCode.nonmovable) == 1)
    elif action == ActionCode.allocate_string:
        allocate_items(STRINGS, field(FieldCode.length), field(FieldCode.nonmovable) == 1)
    elif action == ActionCode.allocate_array:
        allocate_items(ARRAYS, field(FieldCode.length), field(FieldCode.nonmovable) == 1)
    elif action == ActionCode.allocate_weakref:
        allocate_weakref(field(FieldCode.root))
    elif action == ActionCode.allocate_old_string:
        llop.gc_gcfuzz(Void, OLD_STRING, type_id(STRING), field(FieldCode.length))
    elif action == ActionCode.write:
        write(field(FieldCode.root), field(FieldCode.field), field(FieldCode.value))
    elif action == ActionCode.write_number:
        node_in(field(FieldCode.root)).x = field(FieldCode.number)
    elif action == ActionCode.copy_array:
        copy_array(
            array_in(field(FieldCode.source)),
            array_in(field(FieldCode.dest)),
            field(FieldCode.source_start),
            field(FieldCode.dest_start),
            field(FieldCode.length),
        )
    elif action == ActionCode.fill_array:
        value = reference_in(field(FieldCode.value))
        fill_array(array_in(field(FieldCode.root)), value)
    elif action == ActionCode.move_array:
        move_array(
            array_in(field(FieldCode.root)),
            field(FieldCode.source_start),
            field(FieldCode.dest_start),
            field(FieldCode.length),
        )
    elif action == ActionCode.take_identity:
        tell_identity(llop.gc_id(Signed, object_in(field(FieldCode.root))))
    elif action == ActionCode.pin:
        if not llop.gc_pin(lltype.Bool, object_in(field(FieldCode.root))):
            refuse()
    elif action == ActionCode.unpin:
        llop.gc_unpin(Void, object_in(field(FieldCode.root)))
    elif action == ActionCode.add_memory_pressure:
        llop.gc_gcfuzz(Void, PRESSURE, field(FieldCode.extra_bytes), 0)
    elif action == ActionCode.register_finalizer:
        llop.gc_gcfuzz(Void, FINALIZER, field(FieldCode.number), field(FieldCode.root))
    elif action == ActionCode.unregister_finalizer:
        rgc.may_ignore_finalizer(object_in(field(FieldCode.root)))
    elif action == ActionCode.run_finalizers:
        run_finalizers()
    elif action == ActionCode.collect_minor:
        llop.gc__collect(Void, -1)
    elif action == ActionCode.collect_progress:
        llop.gc__collect(Void, 0)
    elif action == ActionCode.collect_step:
        llop.gc_gcfuzz(Void, STEP, 0, 0)
    elif action == ActionCode.collect_full:
        llop.gc__collect(Void, 2)
    elif HAS_SAMPLING:
        carry_out_sampling(action)


def carry_out_sampling(action):
    if action == ActionCode.enable_sampling:
        llop.gc_gcfuzz(Void, ENABLE, field(FieldCode.period_bytes), 0)
    elif action == ActionCode.disable_sampling:
        llop.gc_gcfuzz(Void, ENABLE, -1 if field(FieldCode.report) == 1 else 0, 0)
    elif action == ActionCode.fork:
        llop.gc_gcfuzz(Void, FORKED, 0, 0)


# The program.


def prepare():
    """Show the types and the prebuilt objects to C, and leave an empty heap."""
    rgc.register_custom_light_finalizer(DESTRUCTIBLES, lambda: call_destructor)
    node, string = lltype.malloc(NODES), lltype.malloc(STRINGS, 0)
    destructible = lltype.malloc(DESTRUCTIBLES)
    destructible.x = 0
    show_type(DESTRUCTIBLE, destructible)
    weakref = llop.weakref_create(llmemory.WeakRefPtr, node)
    show_type(NODE, node)
    show_type(STRING, string)
    show_type(WEAK, llmemory.cast_weakrefptr_to_ptr(lltype.Ptr(WEAKREF), weakref))
    show_type(ARRAY, PREBUILT_ARRAYS[0])
    for index in range(PREBUILT_MAX):
        set_prebuilt(index, llmemory.cast_ptr_to_adr(PREBUILT_NODES[index]))
        set_prebuilt(PREBUILT_MAX + index, llmemory.cast_ptr_to_adr(PREBUILT_ARRAYS[index]))


@specialize.ll()
def show_type(kind, obj):
    """Show an object's type, and the number that reports have for it."""
    reference = lltype.cast_opaque_ptr(GCREF, obj)
    number = llop.gc_get_rpy_type_index(Signed, reference)
    set_type(kind, llmemory.cast_ptr_to_adr(obj), number)


def reserve_roots():
    """Take a part of the shadow stack for the roots."""
    top, base = llop.gc_adr_of_root_stack_top(Address), llop.gc_adr_of_root_stack_base(Address)
    begin(top.address[0], base, llhelper(CALLBACK, run_callback))
    top.address[0] = top.address[0] + roots_bytes()


def entry_point(_):
    prepare()
    llop.gc__collect(Void, 2)
    reserve_roots()
    while True:
        action = next_action()
        if action == END:
            return 0
        if action == BEGIN_TRACE:
            nursery_bytes = setting(SettingCode.nursery_bytes)
            llop.gc_gcfuzz(Void, CONFIGURE, nursery_bytes, setting(SettingCode.large_object_bytes))
            llop.gc_gcfuzz(Void, FIGURES, 0, 0)
        else:
            carry_out(action)
            llop.gc_gcfuzz(Void, FIGURES, 0, 0)
            answer(NULL_SLOT)


for function in (prepare, reserve_roots, carry_out, run_callback, run_finalizers):
    function._dont_inline_ = True


def target(*_):
    return entry_point, None
