"""What an oracle is, and what it raises. One that is written here, in a file of its own, is asked.

judges      the fields of an observation of which it says whether they are right
concerns    it is asked about these actions, whatever the target said
events      and about any in whose observation one of these fields says something
states      and about any after which one of these fields says something else than before
relies_on   the oracles that are asked before it
told_by     one of them, whose facts it is handed

Whatever else is said of another action it does not regard, and so it costs nothing there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

Facts = TypeVar("Facts")
_SILENCE = Observation()
UNPROMISED: dict[str, Any] = {
    field: getattr(_SILENCE, field)
    for field in (
        *("minors", "order", "at", "tlab", "alive", "identity", "reports"),
        *("free", "limit", "top", "sample_point", "state", "memory"),
    )
}
"""What depends on when collections come, but for the graph, as if nothing were said of it."""
UNPROMISED_CHANCE: dict[str, Any] = {
    field: getattr(_SILENCE, field) for field in ("samples", "profile", "offsets", "weights")
}
"""The same where distances are random: a collection may take of the numbers they come from."""


def unpromised(contract: Contract) -> dict[str, Any]:
    """What may be otherwise when collections come at other times, as if nothing were said of it."""
    if "collections" in contract.promises:
        return {}
    if contract.sampling.distances == "random":
        return UNPROMISED | UNPROMISED_CHANCE
    return dict(UNPROMISED)


class Mismatch(Exception):  # noqa: N818 - the house's noun; it is a finding, not an error
    """A target broke its contract. Each oracle raises a subclass of its own."""

    oracle = ""
    shadow: Shadow | None = None
    """The mutator's view when a second run went wrong, which is not that after the first one."""

    def __init__(self, field: str, expected: object, got: object, why: str) -> None:
        super().__init__(f"{self.oracle}: {field}: expected {expected}, got {got} ({why})")
        self.field = field
        self.expected = expected
        self.got = got
        self.why = why

    @property
    def direction(self) -> str:
        """More or less than expected; for errors, which one; otherwise just different."""
        expected, got = self.expected, self.got
        if isinstance(got, str) and self.field == "error":
            return got.split(":", 1)[0]
        if isinstance(expected, int) and isinstance(got, int) and expected != got:
            return "more" if got > expected else "less"
        return "different"


class Oracle(ABC, Generic[Facts]):
    """Judges one observation after another of a target under one contract.

    `Facts` is the type of what it is handed: None if nobody tells it anything.
    """

    written: ClassVar[list[type[Oracle[Any]]]] = []
    """All oracles that there are."""
    judges: ClassVar[tuple[str, ...]]
    events: ClassVar[frozenset[str]] = frozenset()
    states: ClassVar[frozenset[str]] = frozenset()
    relies_on: ClassVar[tuple[type[Oracle[Any]], ...]] = ()
    told_by: ClassVar[type[Oracle[Any]] | None] = None
    facts: Any = None
    """Frozen data, made anew in each `check`; None if it tells nothing."""

    def __init_subclass__(cls) -> None:
        Oracle.written.append(cls)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        """`shadow` is for reading only."""
        self._shadow = shadow

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        """Whether there is anything in the contract that it could judge."""
        return True

    @classmethod
    @abstractmethod
    def concerns(cls, action: type[Action]) -> bool:
        """Whether it is asked about such an action, whatever the target said."""

    @abstractmethod
    def check(self, action: Action, observation: Observation, facts: Facts) -> None:
        """Raise a Mismatch unless the observation is right. The shadow has followed the action."""


class RerunOracle(ABC):
    """Judges a trace as a whole: it is run once more, changed, and the two must agree.

    It predicts nothing, so it also sees what no other oracle knows: when a collector collects, how
    far its samples are apart. Invariant: the second run performs each action of the first one, or
    what stands for it, in the same order.
    """

    written: ClassVar[list[type[RerunOracle]]] = []
    """All oracles that run a trace once more."""
    name: ClassVar[str]
    """That of its mismatches."""
    share: ClassVar[int]
    """In a session one trace in so many is run once more for it, so that speed holds."""
    relies_on: ClassVar[tuple[type[RerunOracle], ...]] = ()

    def __init_subclass__(cls) -> None:
        RerunOracle.written.append(cls)

    @abstractmethod
    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """What the second run begins with; None if nothing can be said of this trace."""

    def instead(self, action: Action) -> Action | None:
        """What the second run does for `action`; None is nothing."""
        return action

    @abstractmethod
    def check(self, first: Observation, second: Observation) -> None:
        """Raise a Mismatch unless the observations of one action agree."""

    def compare(self, contract: Contract, first: Observation, second: Observation) -> None:
        """Check them, as far as the contract promises that they agree. Raises a Mismatch."""
        if silence := unpromised(contract):
            if first.graph is None or second.graph is None:
                silence["graph"] = None
            first, second = first.with_fields(silence), second.with_fields(silence)
        self.check(first, second)
