"""The program that is the target `hotspot-at-once`: threads that run their shares freely.

`python -m fuzz.targets.hotspot.at_once_driver LIBJVM [NAME]` is as the driver of the
other targets, but that samples are counted without Python, whose lock would have threads take
turns. Invariant: what a thread does from the beginning of its share to its end is bytecode.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from ctypes import CFUNCTYPE, c_int64, c_void_p
from functools import cached_property, partial
from typing import ClassVar

import attrs
from typing_extensions import override

from fuzz.protocol.actions import Action, RunAtOnce, name_of
from fuzz.protocol.contract import AtOnce, Contract
from fuzz.protocol.observation import Observation
from fuzz.targets.hotspot.collectors import (
    BUFFER_BYTES,
    CALLBACK,
    COLLECTOR,
    SETTINGS_AS_DOCUMENTED,
    SETTINGS_OF_KINDS,
)
from fuzz.targets.hotspot.hotspot_command import AT_ONCE
from fuzz.targets.hotspot.hotspot_driver import HotspotTarget, answer
from fuzz.targets.hotspot.java_machine import JavaError, JavaMachine, there
from fuzz.targets.hotspot.sample_counter import SampleCounter
from fuzz.targets.hotspot.share_class import PLACES, RUN, RUN_TYPE, SHARE, share_class
from fuzz.targets.hotspot.structs import word

THREADS = (2, 3)
SETTINGS = tuple(
    attrs.evolve(each, default=THREADS[0], choices=THREADS) if each.name == "threads" else each
    for each in SETTINGS_AS_DOCUMENTED
    if each not in (*SETTINGS_OF_KINDS, CALLBACK)  # What a share makes is always the same.
)
[CHOSEN] = (each.choices for each in SETTINGS if each.name == COLLECTOR)
"""The numbers of the collectors: of those that work while objects are walked it is not known that
they move none meanwhile, and Epsilon frees nothing."""
CALL_STATIC_LONG_METHOD = 134
"""Where it stands in JNI's table."""
CallStaticLong = CFUNCTYPE(c_int64, c_void_p, c_void_p, c_void_p, c_void_p)
"""Not with Python's lock held."""
ALLOCATED = AtOnce(unseen_bytes=2 * BUFFER_BYTES)
"""A buffer that was begun while sampling was off is not looked at before its end."""
CHARGED_AHEAD = attrs.evolve(ALLOCATED, phantom_bytes=2 * BUFFER_BYTES, phantom_percent=10)
"""Up to version 24. What a collection throws away of a buffer counts, and so does what has no room
at its end; no object of a share is larger than a tenth of a buffer."""


class AtOnceTarget(HotspotTarget):
    """See Target."""

    CODE: ClassVar[bytes] = share_class()
    FLAGS = ()

    def __init__(self, library: str, name: str = AT_ONCE) -> None:
        super().__init__(library, name)

    @cached_property
    @override
    def _machine(self) -> JavaMachine:
        machine = super()._machine
        jni, env = machine.jni, self._attached[0].env
        jni.DefineClass(env, SHARE.encode(), None, self.CODE, len(self.CODE))
        self._share_class = jni.NewGlobalRef(env, there(jni.FindClass(env, SHARE.encode())))
        self._run_share = there(
            jni.GetStaticMethodID(env, self._share_class, RUN.encode(), RUN_TYPE.encode())
        )
        self._call = CallStaticLong(word(word(env) + 8 * CALL_STATIC_LONG_METHOD))
        self._tables: list[int] = []
        self._counter = SampleCounter()
        machine.tell_samples_to(self._counter.callback)
        return machine

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        threads = self._attached
        for number, thread in threads.items():
            self._counter.add(number, thread.env)
        for table in self._tables:
            threads[0].free(table)
        new_array = self._machine.jni.NewObjectArray
        self._tables = [
            threads[0].kept(new_array(threads[0].env, PLACES, self._share_class, None))
            for _ in threads
        ]
        self._is_used = True
        return attrs.evolve(
            contract,
            actions=(*contract.actions, name_of(RunAtOnce)),
            observes=(*contract.observes, "shares"),
            sampling=attrs.evolve(contract.sampling, distances="unstated"),
            settings=SETTINGS,
            at_once=CHARGED_AHEAD if self._samplers.charges_ahead else ALLOCATED,
            started_with=self._flags,
        )

    @override
    def _run(self, action: Action) -> Observation:
        before = self._counter.counts(len(self._attached))
        said = self._run_at_once(action) if isinstance(action, RunAtOnce) else super()._run(action)
        after = self._counter.counts(len(self._attached))
        taken = [
            [now - then for then, now in zip(*pair, strict=True)]
            for pair in zip(before, after, strict=True)
        ]
        said.samples = sum(samples for samples, _ in taken)
        if said.shares is not None:
            pairs = zip(said.shares, taken, strict=False)  # Nor is anybody else a thread.
            said.shares = [[*read, *counts] for read, counts in pairs]
        return said

    def _run_at_once(self, action: RunAtOnce) -> Observation:
        collections = self._heap.collections
        works = [partial(self._share, number, action) for number in range(self._threads_now)]
        said = Observation(shares=[[read] for read in self._threads.run_at_once(works)])
        said.minors = self._heap.collections - collections
        if said.minors:
            said.graph = self._graph(self._attached[0])
        return said

    def _share(self, number: int, action: RunAtOnce) -> int:
        """What the thread has read."""
        thread = self._attached[number]
        first = action.first + number * action.objects
        arguments = (c_int64 * 3)(self._tables[number], first, action.objects)
        read: int = self._call(thread.env, self._share_class, self._run_share, arguments)
        if self._machine.jni.ExceptionCheck(thread.env):
            self._machine.jni.ExceptionClear(thread.env)
            raise JavaError(f"thread {number} has no memory left")
        return read


if __name__ == "__main__":
    answer(AtOnceTarget(*sys.argv[1:]))
