"""The driver of `hotspot-program`: `python -m fuzz.targets.hotspot.program_driver NAME LIBJVM`.

A trace is one method; `trace_method` says how. It runs muted until the machine has compiled it, and
then once with answers. Invariant: a trace's method is new, so its answers do not depend on the
traces before it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar

import attrs
from typing_extensions import override

from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import Contract, Setting
from fuzz.protocol.observation import Observation
from fuzz.targets.hotspot import machines, program_contract
from fuzz.targets.hotspot.answers import Answers
from fuzz.targets.hotspot.assembler import METHOD, assembled_class
from fuzz.targets.hotspot.class_file import NODE, OBJECT
from fuzz.targets.hotspot.compilers import C2, LEVELS
from fuzz.targets.hotspot.driver import RESTING_PERIOD_BYTES, HotspotDriver
from fuzz.targets.hotspot.java_machine import (
    JavaError,
    JavaMachine,
    Sampled,
    defined_class,
    held_class,
    there,
)
from fuzz.targets.hotspot.machines import SHENANDOAH
from fuzz.targets.hotspot.program_contract import EACH_TIME, EVERY_SECOND_TIME, TIER, VIRTUAL_THREAD
from fuzz.targets.hotspot.program_samples import ProgramSamples, allocation_of, lines_of_left_out
from fuzz.targets.hotspot.program_tiers import (
    PROGRAM,
    MachineCode,
    collects_young,
    flags_of,
    is_generational_z,
)
from fuzz.targets.hotspot.trace_method import LINE_OF_FIRST, RUN, TraceMethod
from fuzz.targets.hotspot.virtual_thread import LEFT, VirtualThreads
from fuzz.targets.process.driver import CarryOut
from fuzz.targets.process.serve import serve_batch

PROGRAMS_MAX = 500
"""A process has this many programs at most, since their classes and their code stay in memory."""
CALLBACK = "callback"
"""A method that a callback may call: it may leave its machine code."""
TYPES = {RUN: "()V", CALLBACK: "()V", f"{RUN}Often": "(I)V", f"{CALLBACK}Often": "(I)V"}
OFTEN = "next: iload 0; ifle end; invokestatic {}; iinc 0 -1; goto next; end: return"
CODE = {
    CALLBACK: "getstatic rareToo; ifeq end; invokestatic call; end: return",
    **{f"{name}Often": OFTEN.format(name) for name in (RUN, CALLBACK)},
}
"""The methods of a class of a program, beside the program."""
CALLS_AT_ONCE, ROUNDS_MAX = 16, 2**14
"""The second is far more than the rounds after which the machine compiles a program."""
LOCKS_LEAVE_SINCE = 24
"""Before it, a virtual thread that holds a lock does not leave its carrier (JEP 491)."""
CALLBACK_CALLS = 2**12
"""More than the calls after which it compiles the callback."""


class ProgramDriver(HotspotDriver):
    """A virtual machine that runs programs. See LateTarget and Listener."""

    PROMISES_PLACES = False

    @cached_property
    @override
    def settings(self) -> tuple[Setting, ...]:
        return program_contract.settings_of(self._library, self._structs, self.is_as_documented)

    def __init__(self, name: str, library: str) -> None:
        super().__init__(name, library)
        self._trace: list[Action] = []
        self._observations: list[Observation] = []
        self._programs = 0
        self._code: list[range] = []

    # A header.

    @override
    def flags_for(self, chosen: Mapping[str, int]) -> tuple[str, ...]:
        return *machines.flags_for(chosen), *self.FLAGS, *flags_of(self._library, chosen)

    @override
    def _settle(self, chosen: Mapping[str, int]) -> None:
        super()._settle(chosen)
        self._tier = None  # Nothing but programs allocates.
        self._level = LEVELS[chosen[TIER.name]]
        self._may_collect_young = collects_young(self._library, chosen)
        self._is_generational_z = is_generational_z(self._library, chosen)

    @cached_property
    @override
    def machine(self) -> JavaMachine:
        machine = super().machine
        # Programs run beside concurrent collections.
        self._heap.moves_at_any_time |= self._collector == SHENANDOAH
        self._answers = Answers(machine, self._structs, self)
        self._codes = MachineCode(self._structs)
        self._array = held_class(machine.jni, machine.env, f"[L{OBJECT};")
        machine.can_name_lines()
        self._on_sample = Sampled(self._sampled)
        machine.send_samples_to(ctypes.cast(self._on_sample, ctypes.c_void_p).value)
        return machine

    @cached_property
    def _virtual_threads(self) -> VirtualThreads:
        return VirtualThreads(self.machine)

    @property
    def _collects_young(self) -> bool:
        return self._may_collect_young and self.machine.names.can_collect_young

    @override
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        # The header that ends a trace must be answered.
        if self._programs >= PROGRAMS_MAX and not self._trace:
            raise SystemExit  # The next trace gets another process.
        self._settle(chosen)
        self._chosen = chosen
        self._trace, self._observations = [], []
        self.machine.names.use(chosen["node_longs"], chosen["string_item_bytes"])
        layout = machines.layout_for(chosen, machines.has_compact_headers(self._library))
        self._layout = attrs.evolve(layout, object_bytes_max=program_contract.OBJECT_BYTES_MAX)
        stated = program_contract.contract(self.actions, self._heap.nursery_bytes, self._layout)
        if not self._collects_young:
            stated = stated.without((name_of(actions.CollectMinor),))
        return attrs.evolve(stated, version=self.machine.version, settings=self.settings)

    # A trace.

    @override
    def perform(self, action: Action) -> Observation:
        """See LateTarget."""
        if type(action) not in self.CARRY_OUT or action.thread:
            return Observation(error=f"ValueError: {self.name} does not carry out {action}")
        self._trace.append(action)
        self._observations.append(Observation())
        return self._observations[-1]

    def settle(self) -> None:
        """Run the trace. What goes wrong is the error of an action."""
        if not self._trace:
            return
        self._at, self._told = 0, set[int]()
        self._is_last = self._is_called_back = self._has_left = False
        self._waiting: tuple[int, int] | None = None
        try:
            self._run()
        except Exception as problem:  # noqa: BLE001 - each exception is an answer
            self._fail(self._at, problem)
        self.report_samples(is_on=False)
        self.machine.set_interval(RESTING_PERIOD_BYTES)
        self._free_roots()

    def _fail(self, number: int, problem: Exception) -> None:
        observation = self._observations[min(number, len(self._observations) - 1)]
        observation.error = observation.error or f"{type(problem).__name__}: {problem}"

    def _run(self) -> None:
        """Compile the program, and run it once with answers."""
        self._program = self._printed()
        self._define(f"{PROGRAM}{self._programs}")
        self._programs += 1
        problem = self._warm_up()
        if not self._is_last:
            self._begin_last_round()
            try:
                self._call(RUN)
            except JavaError as thrown:
                problem = thrown  # The actions before it have their answers.
        for number in self._program.expected.keys() - self._told:
            self._observations[number].value = self._program.expected[number]
        for number in self._samples.counted:
            self._observations[number].samples += 1
        if problem is not None:
            raise problem

    def _warm_up(self) -> JavaError | None:
        """Run the program until the machine has compiled it; returns why it does not.

        A program that is entered in a loop goes on with the last round. One that throws is run with
        answers anyway, so that the actions before have theirs.
        """
        self._rounds = 0
        self._answers.warm_up()
        try:
            if self._chosen["callback"] == program_contract.TRAP:
                self._call(f"{CALLBACK}Often", CALLBACK_CALLS)
            if self._chosen["rounds_inside"]:
                self._call(RUN)
            while not self._is_last and not self._is_warm(self._rounds):
                self._call(f"{RUN}Often", CALLS_AT_ONCE)
                self._rounds += CALLS_AT_ONCE
        except JavaError as problem:
            self._code = []
            return problem
        return None

    def _printed(self) -> TraceMethod:
        longs = self.machine.names.node_longs
        return TraceMethod(self._trace, self._chosen, f"{NODE}{longs or ''}")

    def _define(self, name: str) -> None:
        """Define the program's class."""
        jni, env, names = self.machine.jni, self.machine.env, self.machine.names
        own = {each: (METHOD, name, each, kind) for each, kind in TYPES.items()}
        members, code = {**self._program.members, **own}, {**CODE, RUN: self._program.code}
        data = assembled_class(name, {}, TYPES, code, members)
        self._owner = defined_class(jni, env, name, data)
        self._methods = {
            each: there(jni.GetStaticMethodID(env, self._owner, each.encode(), kind.encode()))
            for each, kind in TYPES.items()
        }
        classes = {"node": names.node_to_make, "string": names.string, "array": self._array}
        allocated = [allocation_of(action, classes, self._layout) for action in self._trace]
        moved_to = lines_of_left_out(self._chosen, self._is_generational_z)
        self._samples = ProgramSamples(self.machine, self._methods[RUN], allocated, moved_to)

    def _call(self, name: str, argument: int = 0) -> None:
        """Call a method of the program. Raises JavaError if it throws."""
        jni, env = self.machine.jni, self.machine.env
        method = self._methods[name]
        if name == RUN and self._chosen[VIRTUAL_THREAD]:
            self._run_in_virtual_thread()
        else:
            jni.CallStaticVoidMethodA(env, self._owner, method, (ctypes.c_int64 * 1)(argument))
        thrown = jni.ExceptionOccurred(env)
        if thrown is not None:
            jni.ExceptionDescribe(env)
            jni.ExceptionClear(env)
            self._at = max(self._answers.line_of(thrown) - LINE_OF_FIRST, 0)
            raise JavaError("the program throws an exception")

    def _run_in_virtual_thread(self) -> None:
        """Run the program, and carry out what it cannot while it is unmounted.

        It always runs to its end: all programs share one lock, which it may have.
        """
        threads = self._virtual_threads
        threads.start(f"{PROGRAM}{self._programs - 1}", RUN)
        while threads.go_on():
            if self._waiting is not None:
                number, _ = self._waiting
                self._check_unmounted(number)
                self._answer_waiting()
                self._check_unmounted(number)

    def _check_unmounted(self, number: int) -> None:
        """Fail an action if the virtual thread is mounted while it is carried out."""
        try:
            self._virtual_threads.check_unmounted()
        except JavaError as problem:
            self._fail(number, problem)

    def _is_warm(self, rounds: int) -> bool:
        """Whether the machine has compiled the program. Raises JavaError if it does not.

        C2 may give up an order that was drawn. The interpreter then runs the program.
        """
        self._code = self._codes.of(self._methods[RUN], self._level)
        if rounds > ROUNDS_MAX:
            if self._chosen["stress"] and self._level == LEVELS[C2]:
                return True
            raise JavaError(f"the program is not compiled at level {self._level}")
        return bool(rounds and (self._code or not self._level))

    def _begin_last_round(self) -> None:
        self._is_last = True
        self._answers.speak(bool(self._chosen[VIRTUAL_THREAD]))

    def _is_in_machine_code(self, frames: int) -> bool:
        """Whether the program, `frames` away, is in that of its tier."""
        place = self._answers.place_in_program(self.main_thread.address, frames)
        return any(place in code for code in self._code)

    # What the program calls.

    def again(self) -> bool:
        """See Listener."""
        if self._is_last:
            return False
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            return False
        if self._is_warm(self._rounds) and self._is_in_machine_code(1) is bool(self._level):
            self._begin_last_round()
        return True

    def shown(self, reference: int | None) -> None:
        """See Listener."""
        self.roots.append(self.main_thread.hold(reference) if reference else 0)

    def told(self, number: int, value: int) -> bool:
        """See Listener."""
        self._at = number
        self._told.add(number)
        try:
            self._check_tier(number)
        except Exception as problem:  # noqa: BLE001 - the program goes on
            self._fail(number, problem)
        self._waiting = number, value
        if self._leaves_at(number):
            return True
        self._answer_waiting()
        return False

    def stayed(self) -> None:
        """See Listener. Before version 24, a thread with a lock stays."""
        if self._waiting is None:
            return
        number, _ = self._waiting
        pins = self.machine.feature_release < LOCKS_LEAVE_SINCE and self._program.is_locked(number)
        if not pins:
            self._fail(number, JavaError(LEFT))
        self._answer_waiting()

    def _leaves_at(self, number: int) -> bool:
        """Whether the virtual thread of the program leaves its carrier for an action."""
        when = self._chosen[VIRTUAL_THREAD]
        return when == EACH_TIME or (when == EVERY_SECOND_TIME and number % 2 == 1)

    def _check_tier(self, number: int) -> None:
        """Raise JavaError if the program, which has called for an action, is not in its tier."""
        is_c2, is_in_code = self._level == LEVELS[C2], self._is_in_machine_code(2)
        has_trapped = number >= self._program.traps_at and is_c2
        self._has_left |= self._is_generational_z and is_c2 and not is_in_code
        has_left = has_trapped or self._has_left or not self._code
        if is_in_code is has_left:
            raise JavaError(f"the program did not run at level {self._level}")

    def _answer_waiting(self) -> None:
        """Carry out the action that the program has called for, or get its value."""
        if self._waiting is None:
            return
        (number, value), self._waiting = self._waiting, None
        try:
            self.answer(number, value)
        except Exception as problem:  # noqa: BLE001 - the program goes on
            self._fail(number, problem)
        self._free_shown()

    def answer(self, number: int, value: int) -> None:
        """Carry out what the program cannot. After the last action comes the graph."""
        if number == len(self._trace):
            self._observations[-1].graph = self.shown_graph()
            return
        action, observation = self._trace[number], self._observations[number]
        answer = self.CARRY_OUT[type(action)](self, (action, value))
        if action.answer is not None:
            setattr(observation, action.answer, answer)

    @override
    def enable(self, period_bytes: int) -> None:
        """Inline code overlooks samples in the buffer that it has, so a collection ends that."""
        self._samples.is_counted = period_bytes == 0
        super().enable(period_bytes)
        self._samplers.begin_thread(self.main_thread.address, 1)
        self.collect_young()

    def collect_young(self) -> None:
        """Collect young objects, or all where they cannot be collected alone."""
        (self.main_thread.collect_young if self._collects_young else self.machine.collect)()

    def shown_graph(self) -> list[list[int]]:
        """The graph of what was shown. Only a wrong read, which is reported, makes a root null."""
        self.roots = [*filter(None, self.roots)]
        return self.graph(self.main_thread)

    def slot_found(self) -> int | None:
        """The lowest slot of the object that was shown last; None if it is null."""
        return self._same(self.roots, self.roots[-1]) if self.roots[-1] else None

    def identity_with(self, code: int) -> int:
        return self.identities.setdefault(code, len(self.identities) + 1)

    def _free_shown(self) -> None:
        for root in filter(None, self.roots):
            self.main_thread.free(root)
        self.roots = []

    @override
    def _free_roots(self) -> None:
        self._free_shown()
        self.identities = {}

    def _sampled(self, _: int, env: int, thread: int, __: int, kind: int, size_bytes: int) -> None:
        """The callback of a sample. What it does itself is not judged."""
        if self._is_called_back:
            return
        self._is_called_back = True
        try:
            if not self._is_of_program(env, thread):
                raise JavaError("the event of a sample has another thread")  # noqa: TRY301
            is_left_out = self._samples.add(env, kind, size_bytes)
            self._call_back(env, is_left_out)
        except Exception as problem:  # noqa: BLE001 - the program goes on
            self._fail(max(self._at, self._samples.at), problem)
        self._is_called_back = False

    def _is_of_program(self, env: int, thread: int) -> bool:
        """Whether the program runs in this thread. A virtual thread has no address."""
        jni = self.machine.jni
        if self._chosen[VIRTUAL_THREAD]:
            return bool(jni.IsSameObject(env, thread, self._virtual_threads.running))
        address: int = jni.GetLongField(env, thread, self.machine.names.eetop)
        return address == self.main_thread.address

    def _call_back(self, env: int, is_left_out: bool) -> None:
        """Do what the setting says. The method traps if the program has just left its code."""
        match self._chosen["callback"]:
            case program_contract.ALLOCATE:
                self.machine.names.new_string(env, 1)
            case program_contract.YOUNG:
                self.collect_young()
            case program_contract.FULL:
                self.machine.collect()
            case program_contract.DEOPTIMIZE:
                self.main_thread.deoptimize_frames()
                self._has_left = True
            case program_contract.TRAP:
                if is_left_out:
                    self._answers.leave_callback()
                self._call(CALLBACK)

    CARRY_OUT: ClassVar[CarryOut] = {
        **dict.fromkeys(
            (
                *(actions.AllocateNode, actions.AllocateString, actions.AllocateArray),
                *(actions.Free, actions.Write, actions.WriteNumber, actions.CopyArray),
            ),
            lambda driver, each: None,
        ),
        actions.Read: lambda driver, _: driver.slot_found(),
        actions.ReadNumber: lambda _, each: each[1],
        actions.TakeIdentity: lambda driver, each: driver.identity_with(each[1]),
        actions.CollectMinor: lambda driver, _: driver.main_thread.collect_young(),
        actions.CollectFull: lambda driver, _: driver.machine.collect(),
        actions.CheckHeap: lambda driver, _: driver.shown_graph(),
        actions.EnableSampling: lambda driver, each: driver.enable(each[0].period_bytes),
        actions.DisableSampling: lambda driver, _: driver.report_samples(is_on=False),
    }

    @classmethod
    @override
    def main(cls, answer: Callable[..., None] = serve_batch) -> None:
        super().main(answer)


if __name__ == "__main__":
    ProgramDriver.main()
