"""What an oracle is, and what it raises.

The bench asks every oracle about every action. An oracle that an action does not concern returns in
its first line, so that it costs little.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting.way import SAMPLES
from fuzz.protocol.observation import Observation

ON_COLLECTIONS = (
    *("minors", "order", "at", "tlab", "alive", "identity", "reports"),
    *("free", "limit", "top", "sample_point", "state", "memory", "finalized", "exhausted"),
    "members",
)
"""The fields that depend on when collections come, except the graph."""
FOUND_OUT = ("lose", "lose_value", "resize")
"""The methods of a shadow by which an oracle may change it. Which objects died early, and which
block moved, follows only from right answers, and later oracles and drawing need it. An oracle keeps
everything else in its own state."""


def unpromised(contract: Contract) -> dict[str, Any]:
    """The fields that may differ if collections come at other times, with empty values."""
    if "collections" in contract.promises:
        return {}
    nothing, is_random = Observation(), contract.sampling.distances == "random"
    # A collection may use up numbers of the generator.
    names = ON_COLLECTIONS + (SAMPLES if is_random else ())
    return {name: getattr(nothing, name) for name in names}


class Mismatch(Exception):  # noqa: N818 - it reports a target's mistake, not one of gcfuzz
    """A target broke its contract."""

    shadow: Shadow | None = None
    """The mutator's view, if a second run went wrong."""

    def __init__(self, oracle: str, field: str, expected: object, got: object, why: str) -> None:
        super().__init__(f"{oracle}: {field}: expected {expected}, got {got} ({why})")
        self.oracle = oracle
        self.field = field
        self.expected = expected
        self.got = got
        self.why = why

    @property
    def direction(self) -> str:
        """`more`, `less` or `different`; the kind of an error."""
        expected, got = self.expected, self.got
        if isinstance(got, str) and self.field == "error":
            return got.split(":", 1)[0]
        if isinstance(expected, int) and isinstance(got, int) and expected != got:
            return "more" if got > expected else "less"
        return "different"


class Judge(ABC):
    """What all oracles have in common."""

    name: ClassVar[str]
    """Its name in mismatches."""

    def mismatch(self, field: str, expected: object, got: object, why: str) -> Mismatch:
        """What it raises."""
        return Mismatch(self.name, field, expected, got, why)

    def compare_fields(
        self, fields: Iterable[str], expected: Observation, got: Observation, why: str
    ) -> None:
        """Raise a Mismatch in the first of the fields in which two observations differ."""
        for field in fields:
            wanted, found = getattr(expected, field), getattr(got, field)
            if wanted != found:
                raise self.mismatch(field, wanted, found, why)


class Oracle(Judge):
    """Judges a target's observations, one after another. The bench finds every subclass."""

    judges: ClassVar[tuple[str, ...]]
    """The fields of an observation that it judges."""
    relies_on: ClassVar[tuple[type[Oracle], ...]] = ()
    """The oracles that the bench asks before it."""

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        """The oracle reads the shadow, and reports what only an answer shows with `FOUND_OUT`."""
        self._shadow = shadow

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        """Whether the contract contains anything that it judges."""
        return True

    @override
    def mismatch(self, field: str, expected: object, got: object, why: str) -> Mismatch:
        """What it raises, which names the member of a group that is judged by itself."""
        place = self._shadow.place
        return super().mismatch(field, expected, got, f"member {place}: {why}" if place else why)

    @abstractmethod
    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        """Raise a Mismatch unless the observation is right. The shadow has followed the action.

        `sampling` is what the sampling oracle knows, for oracles that rely on it.
        """


class RerunOracle(Judge):
    """Compares a trace with a second, changed run of it.

    It predicts nothing. So it also judges what no contract states, such as when a target collects.
    Invariant: the second run performs the same actions in order, or replacements of them.
    """

    share: ClassVar[int]
    """A session runs one trace in `share` again, to stay fast.

    Known bugs are found soonest with the shares of today (docs/evidence/effectiveness.md)."""
    relies_on: ClassVar[tuple[type[RerunOracle], ...]] = ()
    """The oracles that come before it."""
    needs_same: ClassVar[tuple[str, ...]] = ("layout", "sampling", "prebuilt")
    """The keys of the contract in which both runs must agree. Then actions cost the same and sample
    by the same rule."""

    @abstractmethod
    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """The second run's configuration; None if the oracle cannot judge this trace."""

    def instead(self, action: Action) -> Action | None:
        """The second run's replacement for `action`; None to leave it out."""
        return action

    @abstractmethod
    def check(self, first: Observation, second: Observation) -> None:
        """Raise a Mismatch unless the observations of one action agree."""

    def compare(self, contract: Contract, first: Observation, second: Observation) -> None:
        """Check the fields that the contract promises. Raises a Mismatch."""
        if silence := unpromised(contract):
            if first.graph is None or second.graph is None:
                silence["graph"] = None
            first, second = first.with_fields(silence), second.with_fields(silence)
        self.check(first, second)
