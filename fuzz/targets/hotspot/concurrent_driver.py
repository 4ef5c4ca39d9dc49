"""The driver of `hotspot-concurrent`, whose threads run at the same time.

`python -m fuzz.targets.hotspot.concurrent_driver NAME LIBJVM`

Threads run their shares at the same time. Samples are counted without Python, whose lock would make
the threads take turns, and the first ones of each action are compared with what its thread has
allocated. Invariant: a thread runs only bytecode from the start of its share to its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import CFUNCTYPE, c_int64, c_void_p
from functools import cached_property, partial
from typing import ClassVar

import attrs
from typing_extensions import override

from fuzz.protocol.actions import Action, RunAtOnce
from fuzz.protocol.contract import AtOnce, Contract
from fuzz.targets.hotspot.driver import HotspotDriver
from fuzz.targets.hotspot.java_machine import (
    JavaError,
    JavaMachine,
    SampleEvent,
    defined_class,
    there,
)
from fuzz.targets.hotspot.machines import (
    BUFFER_BYTES,
    CALLBACK,
    COLLECTOR,
    SETTINGS_AS_DOCUMENTED,
    SETTINGS_OF_KINDS,
    SETTINGS_OF_TIERS,
)
from fuzz.targets.hotspot.sample_counter import SampleCounter
from fuzz.targets.hotspot.share_class import PLACES, RUN, RUN_TYPE, SHARE, share_class
from fuzz.targets.hotspot.structs import word
from fuzz.targets.process.driver import CarryOut

THREADS = (2, 3)
SETTINGS = tuple(
    attrs.evolve(each, default=THREADS[0], choices=THREADS) if each.name == "threads" else each
    for each in SETTINGS_AS_DOCUMENTED
    if each not in (*SETTINGS_OF_KINDS, *SETTINGS_OF_TIERS, CALLBACK)
    # A share always allocates the same objects, and is bytecode.
)
[CHOSEN] = (each.choices for each in SETTINGS if each.name == COLLECTOR)
"""The numbers of the collectors. Those that run at the same time may move objects during a walk,
and Epsilon frees nothing."""
CALL_STATIC_LONG_METHOD = 134
"""Its index in JNI's table."""
CallStaticLong = CFUNCTYPE(c_int64, c_void_p, c_void_p, c_void_p, c_void_p)
"""It releases Python's lock."""
ALLOCATED = AtOnce(unseen_bytes=2 * BUFFER_BYTES)
"""A buffer that was started while sampling was off is not checked before its end."""
CHARGED_AHEAD = attrs.evolve(ALLOCATED, phantom_bytes=2 * BUFFER_BYTES, phantom_percent=10)
"""Up to version 24 the unused bytes of a buffer count too, when a collection drops it or an object
does not fit. No object of a share is larger than a tenth of a buffer."""


class ConcurrentDriver(HotspotDriver):
    """A virtual machine whose threads run at the same time."""

    OF_THREADS = (*HotspotDriver.OF_THREADS, RunAtOnce)
    CODE: ClassVar[bytes] = share_class()
    PROMISES_PLACES = False
    FLAGS = ()
    TAKES_TURNS = False

    @cached_property
    @override
    def machine(self) -> JavaMachine:
        machine = super().machine
        jni, env = machine.jni, self.attached[0].env
        self._share_class = defined_class(jni, env, SHARE, self.CODE)
        self._number = there(jni.GetFieldID(env, self._share_class, b"number", b"J"))
        self._run_share = there(
            jni.GetStaticMethodID(env, self._share_class, RUN.encode(), RUN_TYPE.encode())
        )
        self._call = CallStaticLong(word(word(env) + 8 * CALL_STATIC_LONG_METHOD))
        self._tables: list[int] = []
        self._counter = SampleCounter()
        machine.send_samples_to(self._counter.callback)
        return machine

    @override
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        threads = self.attached
        for number, thread in threads.items():
            self._counter.add(number, thread.env)
            self._threads.run(number, partial(self._take_logged, number))
            self._threads.run(number, partial(self.machine.take_samples, thread, None))
        for table in self._tables:
            threads[0].free(table)
        new_array = self.machine.jni.NewObjectArray
        self._tables = [
            threads[0].kept(new_array(threads[0].env, PLACES, self._share_class, None))
            for _ in threads
        ]
        self._is_used = True
        return attrs.evolve(
            contract,
            observes=(*contract.observes, "shares"),
            sampling=attrs.evolve(contract.sampling, distances="unstated"),
            settings=SETTINGS,
            tier_setting=None,
            at_once=CHARGED_AHEAD if self._samplers.charges_ahead else ALLOCATED,
            started_with=self._flags,
        )

    @override
    def carry_out(self, action: Action) -> None:
        before = self._counter.counts(len(self.attached))
        super().carry_out(action)
        after = self._counter.counts(len(self.attached))
        taken = [
            [now - then for then, now in zip(*pair, strict=True)]
            for pair in zip(before, after, strict=True)
        ]
        for number in self.attached:
            self._threads.run(number, partial(self._compare_logged, number, action))
        observation = self.observation
        observation.samples = sum(samples for samples, _ in taken)
        if observation.shares is not None:
            pairs = zip(observation.shares, taken, strict=False)  # The last row is other threads'.
            observation.shares = [[*read, *counts] for read, counts in pairs]

    def _take_logged(self, number: int) -> list[SampleEvent]:
        """The first samples of this thread's row, which the machine then has to take."""
        env, machine = self.attached[number].env, self.machine
        for sample in self._counter.take_logged(number):
            address = machine.jni.GetLongField(env, sample.thread, machine.names.eetop)
            machine.jni.DeleteGlobalRef(env, sample.thread)
            machine.samples.append(SampleEvent(env, address, *sample[1:]))
        return machine.samples

    def _compare_logged(self, number: int, action: Action) -> None:
        """Raises JavaError if a sample of this thread has another object, class, size or thread."""
        samples = self._take_logged(number)
        allocated = self.roots[-1] if action.allocates else None
        problem = None
        if isinstance(action, RunAtOnce):
            problem = self._problem_of_share(samples, number, action)
        elif samples and not (allocated and number == action.thread):
            problem = "thread"
        self.machine.take_samples(self.attached[number], allocated)
        if problem:
            raise JavaError(f"the event of a sample has another {problem}")

    def _problem_of_share(
        self, samples: Sequence[SampleEvent], number: int, action: RunAtOnce
    ) -> str | None:
        """What is wrong with samples of a share: each is another node, or array of bytes, of it."""
        thread, first = self.attached[number], action.first + number * action.objects
        for index, sample in enumerate(samples):
            if any(thread.is_same(sample.object, each.object) for each in samples[:index]):
                return "object"
            if problem := self.machine.problem_of(sample, thread, sample.object):
                return problem
            if self.machine.jni.IsInstanceOf(thread.env, sample.object, self._share_class):
                its_number = self.machine.jni.GetLongField(thread.env, sample.object, self._number)
                if its_number not in range(first, first + action.objects):
                    return "object"
            elif not thread.is_string(sample.object):
                return "class"
        return None

    def run_at_once(self, action: RunAtOnce) -> list[list[int]]:
        """What each thread has read."""
        works = [partial(self._share, number, action) for number in range(self.thread_count)]
        return [[read] for read in self._threads.run_at_once(works)]

    def _share(self, number: int, action: RunAtOnce) -> int:
        thread = self.attached[number]
        first = action.first + number * action.objects
        arguments = (c_int64 * 3)(self._tables[number], first, action.objects)
        read: int = self._call(thread.env, self._share_class, self._run_share, arguments)
        if self.machine.jni.ExceptionCheck(thread.env):
            self.machine.jni.ExceptionClear(thread.env)
            raise JavaError(f"thread {number} has no memory left")
        return read

    CARRY_OUT: ClassVar[CarryOut] = {
        **HotspotDriver.CARRY_OUT,
        RunAtOnce: lambda driver, each: driver.run_at_once(each),
    }


if __name__ == "__main__":
    ConcurrentDriver.main()
