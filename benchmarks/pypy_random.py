"""PyPy's own fuzzer over gcfuzz's actions, for benchmarks/effectiveness.py to compare with.

Modelled on TestIncrementalMiniMarkGCFullRandom.test_random of PyPy's sampling fork, by C. F.
Bolz-Tereick and C. Jung (rpython/memory/gc/test/test_direct.py): 13 actions, uniformly drawn from
those that are possible; a nursery of 256 bytes; card marking, page arenas, single-step marking and
the number of prebuilt objects drawn anew for each example; objects of up to 20 items or characters,
born with all references set; five periods. After each action the whole heap, the weak references
and the identities must be what the mutator made of them, and an allocation while sampling is on
must have been sampled if, and only if, arithmetic says so. Nobody asks how often, nor for reports,
pointers, or when the collector collects.

Differences, all to its advantage or without effect here: what takes several of gcfuzz's actions (an
array and all its items) counts as one, like there; the choices are a plain generator's, not
Hypothesis's; a prebuilt array has four items, null at first; of a string only its length is looked
at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzz.drawing.rules import Choices
from fuzz.mutator.shadow import NODE_REFERENCES, Shadow, ShadowObject
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    LoadPrebuilt,
    Read,
    ReadWeakref,
    TakeIdentity,
    Write,
)
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target

ACTIONS_MIN, ACTIONS_MAX = 2, 100
"""Of an example, about 29 on average, as Hypothesis draws them there."""
LENGTH_MAX = 20
PERIODS = (16, 32, 64, 256, 512)
PREBUILT_MAX = 8
"""Of each kind; in PyPy's ten, which is more than the reference has."""


class NoticedError(Exception):
    """PyPy's test would fail here."""


class Example:
    """One heap, the mutator's view of it, and the actions of PyPy's test.

    The prebuilt objects stand in the first roots and are never dropped: there, too, each choice
    of an object may fall on them.
    """

    def __init__(self, target: Target, source: Choices) -> None:
        self._target = target
        self._source = source
        self._shadow = Shadow(
            target.start(
                {
                    "card_items": source.pick((0, 4)),
                    "paged_arenas": source.below(2),
                    "single_step_marking": source.below(2),
                    "prebuilt_nodes": source.between(1, PREBUILT_MAX),
                    "prebuilt_arrays": source.between(1, PREBUILT_MAX),
                }
            )
        )
        self._roots = self._shadow.roots
        self._identities: dict[ShadowObject, int] = {}
        self._nodes = 0
        self._period_bytes = 0
        self._counted_bytes = 0
        self._was_sampled = False
        self._prebuilt = len(self._shadow.prebuilt)
        for index in range(self._prebuilt):
            self._perform(LoadPrebuilt(index))

    def step(self) -> None:
        """One action, and all checks. Raises NoticedError."""
        self._source.pick(self._possible())()
        self._check(is_all_dead=False)

    def end(self) -> None:
        """What follows the last action: after a full collection all weak references are right."""
        self._perform(CollectFull())
        self._check(is_all_dead=True)

    def _possible(self) -> list[Callable[[], None]]:
        possible: list[Callable[[], None]] = [
            *(self._malloc, self._read, self._write, self._collect),
            *(self._read_array, self._write_array, self._malloc_array, self._malloc_string),
            *(self._take_identity, self._create_weakref, self._set_sampling),
        ]
        if len(self._roots) > self._prebuilt:
            possible.append(self._drop)
        if len({self._roots[slot] for slot in self._slots("array")}) > 1:
            possible.append(self._copy_array)
        return possible

    # Choices.

    def _slots(self, *kinds: str) -> list[int]:
        return [slot for slot, obj in enumerate(self._roots) if obj.kind in kinds]

    def _any(self, *kinds: str) -> int:
        """A slot with an object of one of these kinds, or with any."""
        return self._source.pick(self._slots(*kinds) if kinds else range(len(self._roots)))

    def _length(self) -> int:
        return self._source.between(1, LENGTH_MAX)

    # Actions.

    def _drop(self) -> None:
        self._perform(Free(self._source.between(self._prebuilt, len(self._roots) - 1)))

    def _malloc(self) -> None:
        references = [self._any() for _ in range(NODE_REFERENCES)]
        self._nodes += 1
        self._allocate(AllocateNode(self._nodes))
        self._fill(references)

    def _malloc_array(self) -> None:
        items = [self._any("node") for _ in range(self._length())]
        self._allocate(AllocateArray(len(items)))
        self._fill(items)

    def _fill(self, references: Sequence[int]) -> None:
        """Write these objects into the new one."""
        new = len(self._roots) - 1
        for field, slot in enumerate(references):
            self._perform(Write(new, field, slot))

    def _malloc_string(self) -> None:
        self._allocate(AllocateString(self._length()))

    def _create_weakref(self) -> None:
        self._allocate(AllocateWeakref(self._any("node", "array")))

    def _read(self) -> None:
        self._perform(Read(self._any("node"), self._source.below(NODE_REFERENCES)))

    def _read_array(self) -> None:
        self._perform(Read(*self._item()))

    def _write(self) -> None:
        node, field = self._any("node"), self._source.below(NODE_REFERENCES)
        self._perform(Write(node, field, self._any()))

    def _write_array(self) -> None:
        self._perform(Write(*self._item(), self._any()))

    def _item(self) -> tuple[int, int]:
        array = self._any("array")
        return array, self._source.below(len(self._roots[array].refs))

    def _copy_array(self) -> None:
        origin = self._any("array")
        heirs = [slot for slot in self._slots("array") if self._roots[slot] != self._roots[origin]]
        heir = self._source.pick(heirs)
        lengths = len(self._roots[origin].refs), len(self._roots[heir].refs)
        starts = (0, 0)
        if self._source.below(2):
            starts = self._source.below(lengths[0]), self._source.below(lengths[1])
        length = self._source.between(1, min(lengths[0] - starts[0], lengths[1] - starts[1]))
        self._perform(CopyArray(origin, heir, *starts, length))

    def _collect(self) -> None:
        self._perform(CollectStep())

    def _take_identity(self) -> None:
        slot = self._any()
        identity = self._perform(TakeIdentity(slot)).identity
        if self._identities.setdefault(self._roots[slot], identity or 0) != identity:
            raise NoticedError

    def _set_sampling(self) -> None:
        self._counted_bytes = 0
        self._period_bytes = self._source.pick(PERIODS) if self._source.below(2) else 0
        self._perform(
            EnableSampling(self._period_bytes) if self._period_bytes else DisableSampling()
        )

    # Checks.

    def _perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        if observation.error is not None:
            raise NoticedError
        self._shadow.follow(action, observation.minors)
        return observation

    def _allocate(self, action: Action) -> None:
        """A sample while sampling was off is noticed by the next allocation while it is on."""
        self._was_sampled |= self._perform(action).samples > 0
        if not self._period_bytes:
            return
        total = self._counted_bytes + self._roots[-1].size_bytes
        samples = (total - 1) // self._period_bytes
        self._counted_bytes = total - samples * self._period_bytes
        if self._was_sampled != (samples > 0):
            raise NoticedError
        self._was_sampled = False

    def _check(self, is_all_dead: bool) -> None:
        """`is_all_dead` says that whatever is unreachable is dead by now."""
        if self._perform(CheckHeap()).graph != self._shadow.graph():
            raise NoticedError
        weakrefs = self._slots("weakref")
        reachable = self._shadow.reachable() if weakrefs else set()
        for slot in weakrefs:
            is_alive = self._perform(ReadWeakref(slot)).alive
            is_reachable = self._roots[slot].target in reachable
            if is_reachable > bool(is_alive) or (is_all_dead and is_alive != is_reachable):
                raise NoticedError


def run_example(target: Target, source: Choices, actions_max: int) -> tuple[int, bool]:
    """How many actions an example had, and whether the last one failed."""
    length = min(source.log_between(ACTIONS_MIN, ACTIONS_MAX), actions_max)
    done = 0
    try:
        example = Example(target, source)
        while done < length:
            done += 1
            example.step()
        example.end()
    except NoticedError:
        return done, True
    return done, False
