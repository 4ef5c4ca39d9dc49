"""The program of incminimark-jit: a mutator whose traces become machine code of PyPy's JIT.

    PYTHONPATH=SOURCE python2.7 -m rpython --opt=jit compiled.py compiled

A trace is a program for the interpreter in `run`, which the JIT compiles as one loop. It runs
several times: first in the interpreter, so that `compiled.c` learns the place of each new root;
then muted, until it is machine code; and at last once from an empty heap, with answers.
`translated.py` has the rest: the collector, and the actions that are not compiled.

Invariants. The roots are a prebuilt array, so that storing one is a store with its inlined barrier.
Operands are constants of the machine code, but for lengths and indexes that it reads from memory.
An observation is a call, which ends a block of allocations. So there is one before each allocation
and group, and after all that cannot wait for it. Each also shows two numbers and a root. Machine
code has read them before the allocations, and kept them in registers.
"""
# Python 2.7 has no annotations.
# ruff: noqa: ANN001, ANN002, ANN201, ANN204, C901, D103, PLR0912, PLR0913, RUF012, UP004
# mypy: ignore-errors

import contract
import jit_switches
import translated
from rpython.jit.codewriter.policy import JitPolicy
from rpython.rlib import jit
from rpython.rtyper.annlowlevel import llhelper
from rpython.rtyper.lltypesystem import llmemory, lltype, rffi, rstr
from rpython.rtyper.lltypesystem.lloperation import llop
from translated import (
    ARRAYS,
    ENABLE,
    GCREF,
    HAS_SAMPLING,
    NODES,
    PREBUILT_ARRAYS,
    PREBUILT_MAX,
    PREBUILT_NODES,
    ROOTS_MAX,
    ActionCode,
    FieldCode,
    Signed,
    Void,
    external,
)

STRINGS = translated.STRINGS = rstr.STR
"""The only strings whose length machine code may read from memory."""
OPERATION, FIRST, SECOND, PLACE, OBSERVED, GUARD, HELD, LOADS, LOADED_ROOT, OPERANDS = range(10)
NOT_OBSERVED, IS_OBSERVED, RAISES = range(3)
FORGET_HELD, KEEP_HELD = -1, -2
"""What becomes of the held object after a step, if no place of a root is named."""
COPIED_MAX = 256
"""How many characters a new string gets at most."""
STEPS_MAX = 4096
ALL_OPTIMIZATIONS = 2
ORDERED = "intbounds:rewrite:pure"
"""Without the optimizations that move allocations and stores."""
FEW_ROUNDS = (
    "threshold=2,trace_eagerness=1,trace_limit=16000,loop_longevity=1000000000,enable_opts="
)
batch = external("batch", Signed)
prepare = external("prepare", Signed, Signed)
learn = external("learn", Void, Signed)
plan = external("plan", Void)
operand = external("operand", Signed, Signed, Signed)
in_memory = external("in_memory", Signed, Signed)
collects_first = external("collects_first", Signed, Signed)
take_step = external("take_step", Signed, Signed)
next_place = external("next_place", Signed)
tell = external("tell", Void, Signed)
seen = external("seen", Void, Signed)
answer_up_to = external("observe", Void, Signed, Signed, lltype.Float, llmemory.Address)
count_round = external("end_round", Signed, Signed)
guard_fails = external("guard_fails", Signed, Signed)
has_traced = external("has_traced", Void)
count_from_here = external("count_from_here", Void)
has_finalizers = external("has_finalizers", Signed)
forget_kept = external("forget_kept", Signed)
next_kept = external("next_kept", Signed)
kept_place = external("kept_place", Signed)
use_hidden_number = external("use_hidden_number", Void)
is_warming_up = external("is_warming_up", Signed)


class OperationCode(object):
    """The codes of the operations."""


translated.number_names(OperationCode, translated.OPERATIONS)
ROOTS = lltype.malloc(ARRAYS, ROOTS_MAX, immortal=True, zero=True)
IN_MEMORY = lltype.malloc(rffi.CArray(Signed), STEPS_MAX, flavor="raw", immortal=True, zero=True)
FRACTIONS = lltype.malloc(
    rffi.CArray(lltype.Float), STEPS_MAX, flavor="raw", immortal=True, zero=True
)
TAKEN = lltype.malloc(ARRAYS, ROOTS_MAX, immortal=True, zero=True)
"""The objects that were taken from the queue of finalizers, and kept."""
REGISTERED = lltype.malloc(ARRAYS, STEPS_MAX, immortal=True, zero=True)
"""The objects with finalizers, in a round that is not answered. There none dies for sure: while the
JIT traces, it keeps alive what it has seen."""
TEXT = lltype.malloc(
    lltype.GcStruct("gcfuzz_text", ("text", lltype.Ptr(STRINGS)), hints={"immutable": True}),
    immortal=True,
)
"""What is copied into new strings. The JIT knows that the field is constant, the annotator not."""
TEXT.text = lltype.malloc(STRINGS, COPIED_MAX, immortal=True, zero=True)
for offset in range(COPIED_MAX):
    TEXT.text.chars[offset] = chr(offset % 251)
FAILS = lltype.malloc(
    rffi.CArray(Signed), contract.GUARDS_MAX, flavor="raw", immortal=True, zero=True
)
STACK_BASE = lltype.malloc(rffi.CArray(Signed), 1, flavor="raw", immortal=True, zero=True)


class TraceProgram(object):
    """A trace, as operations with their operands."""

    _immutable_fields_ = ["code[*]"]

    def __init__(self, steps):
        self.code = [0] * (OPERANDS * (steps + 1))


@translated.specialize.ll()
def keep(obj):
    ROOTS[next_place()] = lltype.cast_opaque_ptr(GCREF, obj)


translated.keep = keep


def taken(address):
    place = next_kept()
    if place >= 0:
        TAKEN[place] = llmemory.cast_adr_to_ptr(address, GCREF)


translated.taken = taken


# What machine code does.


@jit.dont_look_inside
def call_tell(number):
    tell(number)


@jit.dont_look_inside
def observe(step, whole, fraction, root):
    show_stores()
    llop.gc_gcfuzz(Void, translated.FIGURES, 0, 0)
    answer_up_to(step, whole, fraction, llmemory.cast_ptr_to_adr(root))


class AnsweredError(Exception):
    """An exception after an allocation."""


ANSWERED = AnsweredError()


@jit.dont_look_inside
def observe_and_raise(step, whole, fraction, root):
    observe(step, whole, fraction, root)
    raise ANSWERED


def show_stores():
    """Read what C reads, so that no store is delayed beyond this call."""
    node = PREBUILT_NODES[0]
    seen(node.x)
    translated.drop(llmemory.cast_ptr_to_adr(node.prev))
    translated.drop(llmemory.cast_ptr_to_adr(node.next))
    translated.drop(llmemory.cast_ptr_to_adr(PREBUILT_ARRAYS[0][0]))


@jit.dont_look_inside
def leave_path(guard):
    """What a bridge does."""
    seen(guard)


def node_in(obj):
    return lltype.cast_opaque_ptr(lltype.Ptr(NODES), obj)


def array_in(obj):
    return lltype.cast_opaque_ptr(lltype.Ptr(ARRAYS), obj)


def held_after(program, pc, held):
    """An object that stays in a register during the next allocation, for the step after that."""
    place = program.code[pc + HELD]
    if place == KEEP_HELD:
        return held
    return root_at(place)


def root_at(place):
    return ROOTS[place] if place >= 0 else lltype.nullptr(GCREF.TO)


def store(place, obj):
    ROOTS[place] = lltype.cast_opaque_ptr(GCREF, obj)


store._annspecialcase_ = "specialize:ll"


def new_string(length):
    string = lltype.malloc(STRINGS, length)
    if length <= COPIED_MAX:
        # A call that ends no block. The annotator must not know that the starts are 0.
        start = length - length
        rstr.copy_string_contents(TEXT.text, string, start, start, length)
    return string


def step(program, pc, held):
    """Carry out one action."""
    code = program.code
    operation, first, second = code[pc + OPERATION], code[pc + FIRST], code[pc + SECOND]
    place, number = code[pc + PLACE], pc / OPERANDS
    if first != FORGET_HELD and operation >= OperationCode.write_prev:
        held = ROOTS[first]
    if operation == OperationCode.new_node:
        node = lltype.malloc(NODES)
        node.x = first
        store(place, node)
    elif operation == OperationCode.new_string:
        store(place, new_string(first))
    elif operation == OperationCode.new_array:
        store(place, lltype.malloc(ARRAYS, first))
    elif operation == OperationCode.new_string_of:
        store(place, lltype.malloc(STRINGS, IN_MEMORY[number]))
    elif operation == OperationCode.new_array_of:
        store(place, lltype.malloc(ARRAYS, IN_MEMORY[number]))
    elif operation == OperationCode.write_prev:
        node_in(held).prev = root_at(second)
    elif operation == OperationCode.write_next:
        node_in(held).next = root_at(second)
    elif operation == OperationCode.write_item:
        array_in(held)[place] = root_at(second)
    elif operation == OperationCode.write_item_at:
        array_in(held)[IN_MEMORY[number]] = root_at(second)
    elif operation == OperationCode.write_number:
        node_in(held).x = second
    elif operation == OperationCode.forget_last:
        ROOTS[first] = lltype.nullptr(GCREF.TO)
    elif operation == OperationCode.read_prev:
        ROOTS[place] = node_in(held).prev
    elif operation == OperationCode.read_next:
        ROOTS[place] = node_in(held).next
    elif operation == OperationCode.read_item:
        ROOTS[place] = array_in(held)[second]
    elif operation == OperationCode.read_item_at:
        ROOTS[place] = array_in(held)[IN_MEMORY[number]]
    elif operation == OperationCode.node_number:
        call_tell(node_in(held).x)
    elif operation == OperationCode.array_length:
        call_tell(len(array_in(held)))
    elif operation == OperationCode.string_length:
        string = lltype.cast_opaque_ptr(lltype.Ptr(STRINGS), held)
        call_tell(len(string.chars))
    else:
        carry_out_elsewhere(number)


def observe_after(program, pc, whole, fraction, root):
    number, observed = pc / OPERANDS, program.code[pc + OBSERVED]
    if observed == RAISES:
        try:
            observe_and_raise(number, whole, fraction, root)
        except AnsweredError:
            return
    elif observed == IS_OBSERVED:
        observe(number, whole, fraction, root)


driver = jit.JitDriver(greens=["pc", "program"], reds="auto")


def run(program):
    """Repeat the program. The last round ends the process."""
    pc, whole, fraction = 0, 0, 0.0
    held = root = lltype.nullptr(GCREF.TO)
    while True:
        driver.jit_merge_point(pc=pc, program=program)
        if program.code[pc] == OperationCode.end:
            is_compiled = 0
            if jit.we_are_jitted():
                is_compiled = 1
            held = root = lltype.nullptr(GCREF.TO)
            end_round(is_compiled)
            pc = 0
        else:
            if program.code[pc + LOADS]:
                whole, fraction = IN_MEMORY[pc / OPERANDS], FRACTIONS[pc / OPERANDS]
                root = root_at(program.code[pc + LOADED_ROOT])
            step(program, pc, held)
            observe_after(program, pc, whole, fraction, root)
            if program.code[pc + OBSERVED]:
                # It must not keep an object alive that is freed next.
                root = lltype.nullptr(GCREF.TO)
            held = held_after(program, pc, held)
            guard = program.code[pc + GUARD]
            if guard and FAILS[guard - 1]:
                leave_path(guard)
            pc += OPERANDS


# What calls of machine code do.


@jit.dont_look_inside
def carry_out_elsewhere(number):
    show_stores()
    action = take_step(number)
    if action == ActionCode.load_prebuilt:
        load_prebuilt(translated.field(FieldCode.index))
    elif action == ActionCode.free:
        free(translated.field(FieldCode.root))
    elif action == ActionCode.resurrect:
        keep(resurrected(translated.field(FieldCode.number)))
    elif action == ActionCode.register_finalizer:
        if is_warming_up():
            obj = translated.object_in(translated.field(FieldCode.root))
            REGISTERED[translated.field(FieldCode.number)] = obj
        translated.carry_out(action)
    elif action in (ActionCode.read_number, ActionCode.write_number):
        use_hidden_number()
    elif action == ActionCode.run_finalizers:
        for place in range(forget_kept()):
            TAKEN[place] = lltype.nullptr(GCREF.TO)
        translated.run_finalizers()
    else:
        translated.carry_out(action)


def resurrected(number):
    if is_warming_up():
        return REGISTERED[number]
    return TAKEN[kept_place()]


def load_prebuilt(index):
    nodes = translated.setting(translated.SettingCode.prebuilt_nodes)
    if index < nodes:
        keep(PREBUILT_NODES[index])
    else:
        keep(PREBUILT_ARRAYS[index - nodes])


def free(slot):
    """Slot 0 is the last item."""
    place = ROOTS_MAX - 1 - slot
    while place > next_place() + 1:
        ROOTS[place] = ROOTS[place - 1]
        place -= 1
    ROOTS[place] = lltype.nullptr(GCREF.TO)


@jit.dont_look_inside
def end_round(is_compiled):
    show_stores()
    is_last = count_round(is_compiled)
    for guard in range(contract.GUARDS_MAX):
        FAILS[guard] = guard_fails(guard)
    empty_heap()
    if is_last:
        begin_round()
    elif has_finalizers():
        forget_dead()


def empty_heap():
    for place in range(ROOTS_MAX):
        ROOTS[place] = TAKEN[place] = lltype.nullptr(GCREF.TO)
    for number in range(STEPS_MAX):
        REGISTERED[number] = lltype.nullptr(GCREF.TO)
    for index in range(PREBUILT_MAX):
        node, array = PREBUILT_NODES[index], PREBUILT_ARRAYS[index]
        node.x = 0
        node.prev = node.next = lltype.nullptr(GCREF.TO)
        for item in range(len(array)):
            array[item] = lltype.nullptr(GCREF.TO)
    if HAS_SAMPLING:
        # What was sampled must be forgotten, too: its nursery is replaced.
        llop.gc_gcfuzz(Void, ENABLE, 0, 0)


def begin_round():
    """Begin with an empty nursery, no collection in progress, and no finalizer to run."""
    forget_dead()
    replace_nursery(translated.setting(translated.SettingCode.nursery_bytes))


def forget_dead():
    """Let no object of this round get into the queue of finalizers in a later one."""
    llop.gc__collect(Void, 2)
    llop.gc__collect(Void, 2)
    while translated.next_dead():
        # It may keep another one alive.
        llop.gc__collect(Void, 2)
    count_from_here()


def replace_nursery(nursery_bytes):
    large_bytes = translated.setting(translated.SettingCode.large_object_bytes)
    llop.gc_gcfuzz(Void, translated.CONFIGURE, nursery_bytes, large_bytes)
    llop.gc_gcfuzz(Void, translated.FIGURES, 0, 0)


# A trace.


def run_trace():
    steps = batch()
    program = TraceProgram(steps)
    record(program, steps)
    replace_nursery(translated.PARAMETERS["nursery_size"])
    choose_optimizations(translated.setting(translated.SettingCode.optimizations))
    run(program)


def record(program, steps):
    """Carry out the program once, and learn all its operands."""
    begin_round()
    number = 0
    while number < steps and prepare(number):
        load(program, number)
        if collects_first(number):
            llop.gc__collect(Void, 0)
        step(program, number * OPERANDS, lltype.nullptr(GCREF.TO))
        llop.gc_gcfuzz(Void, translated.FIGURES, 0, 0)
        learn(number)
        number += 1
    plan()
    for known in range(number):
        load(program, known)
    program.code[number * OPERANDS] = OperationCode.end
    empty_heap()
    if has_finalizers():
        forget_dead()


def load(program, number):
    for index in range(OPERANDS):
        program.code[number * OPERANDS + index] = operand(number, index)
    IN_MEMORY[number], FRACTIONS[number] = in_memory(number), number + 0.5


def choose_optimizations(optimizations):
    if optimizations == 0:
        jit.set_user_param(None, "off")
    elif optimizations == ALL_OPTIMIZATIONS:
        jit.set_user_param(None, FEW_ROUNDS + "all")
    else:
        jit.set_user_param(None, FEW_ROUNDS + ORDERED)


def reserve_roots():
    """Show the array of roots to C, which sees it as a stack."""
    items = llmemory.cast_ptr_to_adr(ROOTS) + llmemory.itemoffsetof(ARRAYS, 0)
    run_callback = llhelper(translated.CALLBACK, translated.run_callback)
    translated.begin(items, llmemory.cast_ptr_to_adr(STACK_BASE), run_callback)


class Kept(object):
    """A large object that never dies. So there is always a step that sweeps large ones."""


KEPT = Kept()
KEPT.array = lltype.nullptr(ARRAYS)


def entry_point(_):
    translated.prepare()
    KEPT.array = lltype.malloc(ARRAYS, ROOTS_MAX)
    reserve_roots()
    if translated.next_action() != translated.END:
        run_trace()
    return 0


def target(*_):
    jit_switches.install()
    return entry_point, None


class Hooks(jit.JitHookInterface):
    """Reports that a round has met what was no machine code yet."""

    def after_compile(self, _):
        has_traced()

    def after_compile_bridge(self, _):
        has_traced()

    def on_abort(self, reason, jitdriver, greenkey, greenkey_repr, logops, operations):
        has_traced()


def jitpolicy(_):
    return JitPolicy(Hooks())
