"""The reference against recorded sessions of PyPy's own collector, incminimark, with sampling.

The defects of that collector are in its recordings too. A recording *shows* a finding of
docs/findings if the reference agrees with it only with that mistake planted. At the first step
where the reference disagrees, one finding must account for it, and so on, until the reference
agrees in all that was recorded. A shipped recording must show the findings in its name, and no
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, cast

import attrs
import pytest
from recorded_sessions import (
    COLLECT_AND_REPORT,
    COMMANDS,
    DEFAULT_LARGE_OBJECT_BYTES,
    PLAIN,
    SAMPLING,
    SESSIONS,
    JsonObject,
    Session,
    Step,
    each_session,
    has_pinned,
    is_beyond_room,
    is_limit_stale,
    is_top_unread,
)

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.targets.bugs.known_bugs import planted_parts
from fuzz.targets.references.collector import CARRY_OUT
from gcmodel import Configuration, Heap, HeapError, Parts
from gcmodel.collector.major import State
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.configuration import ARENA_BYTES
from gcmodel.memory.errors import PinningError
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import PINNED, Object
from gcmodel.sampling.sample_point import Sampling

CARD_ITEMS = 4


# The findings.


class RescansAllParents(Pinning):
    """While marking, a minor collection queues every black parent of a pinned object."""

    def losing_a_pin(self, parents: list[Object]) -> list[Object]:
        return parents  # Correct: those only whose object is no longer pinned.


class AlwaysLooks(MinorCollection):
    """It does so even if nothing is new, which the reference does not."""

    def collect(self, is_anything_new: bool = True) -> None:
        super().collect()  # Correct: pass the argument.


class ClearsIfPinned(Weakrefs):
    """A minor collection takes a pinned object for dead."""

    def _follow(self, weakref: Object) -> None:
        if weakref.target is not None and weakref.target.flags & PINNED:
            weakref.target = None  # Correct: it stays young, and is looked at again.
        else:
            super()._follow(weakref)


@attrs.frozen
class Finding:
    """`parts` have the mistake; `may_show` is whether it may account for the last of some steps."""

    parts: Mapping[str, type[Any]]
    may_show: Callable[[Sequence[Step]], bool]


def has_copied_while_marking(steps: Sequence[Step]) -> bool:
    copies = [answer for command, answer in steps if command["op"] == "copy_array"]
    return any(answer.get("gc_state") == State.MARKING for answer in copies)


FINDINGS = {
    "stale-limit-after-large": Finding(
        planted_parts(["stale-limit-after-large"]), lambda steps: is_limit_stale(steps[-1][1])
    ),
    "enable-beside-old-obstacle": Finding(
        planted_parts(["enable-beside-old-obstacle"]), lambda steps: is_beyond_room(steps[-1][1])
    ),
    "arraycopy-clean-cards": Finding(
        planted_parts(["arraycopy-clean-cards"]), has_copied_while_marking
    ),
    "marking-without-end": Finding(
        {"pinning": RescansAllParents, "minor": AlwaysLooks}, has_pinned
    ),
    "weakref-to-pinned": Finding({"weakrefs": ClearsIfPinned}, has_pinned),
}
"""What recorded sessions may show, by the name of the known bug, or of its page."""


# Playing the recordings on the reference.


class WaitingSampling(Sampling):
    """Beside a pinned object it starts only after a minor collection that finds none.

    incminimark does so; the reference refuses to be enabled then. `asked_period_bytes` is the
    period that it was enabled with, `room_end` the end of the room that it assumes.
    """

    asked_period_bytes = 0
    room_end = 0

    def enable(self, period_bytes: int) -> None:
        self.asked_period_bytes = period_bytes
        if not any(obj.flags & PINNED for obj in self._nursery.memory.values()):
            super().enable(period_bytes)

    def disable(self) -> None:
        self.asked_period_bytes = 0
        super().disable()

    def after_minor_collection(self) -> None:
        super().after_minor_collection()
        if self.asked_period_bytes and not (self.period_bytes or self._nursery.obstacles):
            super().enable(self.asked_period_bytes)
        self.room_end = self._nursery.nursery_top

    def begin(self) -> None:
        super().begin()
        self.room_end = self._nursery.nursery_top

    def jumped(self, jump_bytes: int) -> None:
        super().jumped(jump_bytes)
        self.room_end = self._nursery.nursery_top


class GenerousPinning(Pinning):
    """Allows as many pins as incminimark: sometimes one more than there is room for.

    (docs/findings/too-many-pinned.md. No session shows more of it than this limit.)
    """

    def __init__(self, configuration: Configuration, nursery: Nursery) -> None:
        super().__init__(configuration, nursery)
        self.allowed = configuration.nursery_bytes // (2 * configuration.large_object_bytes)
        self._pins_max = self.allowed


def configuration_of(setup: JsonObject) -> Configuration:
    return Configuration(
        nursery_bytes=setup["nursery_size"],
        large_object_bytes=setup["large_object"] or DEFAULT_LARGE_OBJECT_BYTES,
        card_items=CARD_ITEMS if setup["card_marking"] else 0,
        paged_arenas=not setup["simple_arena"],
        single_step_marking=setup["visit_single_step"],
        pin_while_sampling=True,  # The parts below exclude it themselves.
        prebuilt_nodes=0,
        prebuilt_arrays=0,
    )


def parts_with(findings: Sequence[str]) -> Parts:
    """Incminimark's treatment of pinned objects, and its mistakes on top."""
    classes: dict[str, list[type[Any]]] = {
        "sampling": [WaitingSampling],
        "pinning": [GenerousPinning],
    }
    for finding in findings:
        for part, mistake in FINDINGS[finding].parts.items():
            classes.setdefault(part, []).insert(0, mistake)
    return Parts(**{part: type("Played", tuple(each), {}) for part, each in classes.items()})


class Player:
    """Carries out the recorded commands on a heap and returns what can be observed after each.

    Objects have ids in the order of their allocation, as in the recordings. The number of a node is
    its id.
    """

    def __init__(self, setup: JsonObject, findings: Sequence[str] = ()) -> None:
        self.heap = Heap(configuration_of(setup), parts_with(findings))
        self._sampling = cast(WaitingSampling, self.heap.sampling)
        self._pinning = cast(GenerousPinning, self.heap.pinning)
        self._objects: list[Object] = []

    def carry_out(self, command: JsonObject) -> JsonObject:
        """The answer to the command, and what can be observed of the heap after it."""
        heap = self.heap
        if command["op"] == "finish":
            heap.configuration = attrs.evolve(heap.configuration, single_step_marking=False)
        answer: JsonObject = {}
        number = len(self._objects) + 1
        for action in COMMANDS[command["op"]](command, len(heap.roots), number):
            answer |= self._perform(action)
        return answer | self._events() | self._registers()

    def _perform(self, action: Action) -> JsonObject:
        if isinstance(action, do.Pin):
            return {"pin_result": self._pin(action)}
        if isinstance(action, do.Write) and not self.heap.roots[action.root].refs:
            return {}  # It has no effect in the recordings.
        done = CARRY_OUT[type(action)](self.heap, action)
        last = len(self.heap.roots) - 1
        if action.allocates:
            size_bytes, address = done
            self._objects.append(self.heap.roots[last])
            placed = {"size": size_bytes, "at": address, "outside": address is None}
            return {"id": len(self._objects), "root": last, **placed}
        if isinstance(action, do.Read) and done is not None:
            return {"value": self._id_of(self.heap.roots[last]), "root": last}
        if isinstance(action, do.CheckHeap):
            return {"live": len(done)}
        is_recorded = isinstance(action, do.Read | do.ReadNumber | do.ReadWeakref)
        return {action.answer: done} if is_recorded and action.answer else {}

    def _pin(self, action: do.Pin) -> bool:
        if self._sampling.asked_period_bytes:
            return False
        try:
            self.heap.pin(action.root)
        except PinningError:
            return False
        return True

    def _id_of(self, obj: Object) -> int:
        return next(
            number
            for number, allocated in enumerate(self._objects, 1)
            if obj is allocated or obj is allocated.forwarded_to
        )

    def _events(self) -> JsonObject:
        order, reports = self.heap.events.take()
        return {
            "events": order,
            "samples": order.count("s"),
            "minors": order.count("M"),
            "reports": [
                [*each.entries, each.memory_used_bytes, each.arena_bytes, each.major_state]
                for each in reports
            ],
        }

    def _registers(self) -> JsonObject:
        nursery, sampling = self.heap.nursery, self._sampling
        is_on = sampling.period_bytes > 0
        return {
            "free": nursery.nursery_free,
            "top": nursery.nursery_limit,
            "real_top": sampling.room_end if is_on else nursery.nursery_top,
            "sample_point": sampling.sample_point if is_on else None,
            "period": sampling.asked_period_bytes,
            "young_sampled": len(sampling.pending),
            "pinned": self._pinning.count,
            "max_pinned": 0 if sampling.asked_period_bytes else self._pinning.allowed,
            "gc_state": self.heap.major.state,
            "nroots": len(self.heap.roots),
        }

    def internal_figures(self) -> JsonObject:
        """The figures that only the deeper recordings have."""
        heap, major = self.heap, self.heap.major
        return {
            "x_ac_used": heap.arenas.used_bytes,
            "x_arenas": heap.arenas.arena_bytes // ARENA_BYTES,
            "x_cards": len(heap.barrier.dirty_arrays),
            "x_initial": major.initial_bytes,
            "x_threshold": major.threshold_bytes,
            "x_made_old": major.made_old_bytes,
            "x_made_old_limit": major.made_old_limit_bytes,
            "x_more": len(major.to_rescan),
            "x_to_trace": len(major.to_trace),
            "x_o2y": len(heap.barrier.remembered),
            "x_old_raw": len(heap.large_objects.old),
            "x_raw_sweep": len(heap.large_objects.to_sweep),
            "x_raw_used": heap.large_objects.used_bytes,
            "x_surviving": heap.minor.surviving_bytes,
            "x_weak": [len(heap.weakrefs.young), len(heap.weakrefs.old)],
        }


# Comparing.


def recorded(answer: JsonObject, names: JsonObject) -> JsonObject:
    """The recorded values of the fields that the player has."""
    reports = [report["array"] for report in answer.get("reports", [])]
    return {name: reports if name == "reports" else answer.get(name) for name in names}


def differences(player: Player, command: JsonObject, answer: JsonObject) -> str:
    """Where the player and the recording differ; empty if they agree."""
    try:
        seen = player.carry_out(command)
    except HeapError as error:
        # The collector failed too, with another message.
        return "" if "error" in answer else f"{error}, where {answer} was recorded"
    if "x_ac_used" in answer:
        seen |= player.internal_figures()
    expected = recorded(answer, seen)
    return ", ".join(
        f"{name} {seen[name]}, where {expected[name]} was recorded"
        for name in seen
        if seen[name] != expected[name]
    )


def first_disagreement(steps: Sequence[Step], findings: Sequence[str]) -> tuple[int, str] | None:
    """The first step in which the reference with these findings planted disagrees."""
    player = Player(steps[0][0], findings)
    for step, (command, answer) in enumerate(steps):
        if what := differences(player, command, answer):
            return step, f"step {step}: {command}: {what}"
    return None


def findings_shown(steps: Sequence[Step]) -> list[str]:
    """The findings with which the reference agrees in everything. Fails if there are none."""
    shown: list[str] = []
    disagreement = first_disagreement(steps, shown)
    while disagreement is not None:
        step, what = disagreement
        for name, finding in FINDINGS.items():
            if name not in shown and finding.may_show(steps[: step + 1]):
                disagreement = first_disagreement(steps, [*shown, name])
                if disagreement is None or disagreement[0] > step:
                    shown.append(name)
                    break
        else:
            pytest.fail(f"no finding accounts for it, with {shown} planted: {what}")
    return shown


def findings_named(session: Session) -> set[str]:
    """The findings that a shipped recording shows by its name, and by its limits."""
    named = {each for each in FINDINGS if each in session.name}
    if any(is_limit_stale(answer) for _, answer in session.steps()):
        named.add("stale-limit-after-large")
    return named


@each_session
def test_with_its_findings_planted_the_reference_agrees_with_a_recording(session: Session) -> None:
    steps = session.steps()
    shown = findings_shown(steps)
    for finding in shown:
        others = [each for each in shown if each != finding]
        assert first_disagreement(steps, others) is not None, f"{finding} makes no difference"
    assert findings_named(session) == {*shown}


@each_session
def test_a_recording_has_a_stale_top_exactly_if_its_name_says_so(session: Session) -> None:
    is_shown = any(is_top_unread(answer) for _, answer in session.recorded_steps())
    assert is_shown == ("unread-top" in session.name)


@each_session
def test_without_them_the_reference_still_counts_and_samples_the_same(session: Session) -> None:
    steps = session.steps()
    player = Player(steps[0][0])
    for step, (command, answer) in enumerate(steps):
        if "error" in answer or is_beyond_room(answer):
            break  # From here on the recording has too few samples.
        seen = player.carry_out(command)
        names = {"samples", "size", "outside"}.intersection(seen)
        assert {name: seen[name] for name in names} == recorded(answer, dict.fromkeys(names)), (
            f"step {step}: {command}"
        )


def test_the_recordings_are_complete() -> None:
    """By archive: sessions, commands, stale limits, and answers beside a pinned object."""
    counts = {}
    for archive, sessions in groupby(SESSIONS, key=lambda each: each.archive):
        answers = [[answer for _, answer in each.steps()] for each in sessions]
        everything = [*chain.from_iterable(answers)]
        stale = sum(map(is_limit_stale, everything))
        beside_pinned = sum(answer.get("pinned", 0) > 0 for answer in everything)
        counts[archive] = len(answers), len(everything), stale, beside_pinned
    assert counts == {
        "incminimark-deep": (67, 13374, 91, 0),
        "incminimark-finds": (9, 529, 0, 108),
        "incminimark-more": (14, 852, 0, 481),
        "incminimark-off": (20, 1240, 0, 323),
        "incminimark-pin": (15, 930, 0, 6),
        "incminimark-plain": (120, 7440, 0, 0),
        "incminimark-sampling": (120, 7440, 42, 0),
    }


# The recordings among themselves.


def without_sampling(command: JsonObject) -> JsonObject:
    """The command that the plain recording has instead."""
    if command["op"] == "enable_sampling":
        return {"op": "noop"}
    if command["op"] == "disable_sampling":
        return {"op": "minor" if command["how"] == COLLECT_AND_REPORT else "noop"}
    return command


def test_a_plain_recording_leaves_sampling_out_and_nothing_else() -> None:
    for name, plain in PLAIN.items():
        expected = [without_sampling(command) for command, _ in SAMPLING[name].steps()]
        assert [command for command, _ in plain.steps()] == expected, name


def test_with_sampling_incminimark_collected_at_the_same_commands_as_without() -> None:
    for name, plain in PLAIN.items():
        pairs = zip(plain.steps(), SAMPLING[name].steps(), strict=True)
        for step, ((command, without), (_, answer)) in enumerate(pairs):
            events = answer["events"].replace("s", "").replace("R", "")
            assert (events, answer["minors"]) == (without["events"], without["minors"]), (
                f"{name}, step {step}: {command}"
            )
