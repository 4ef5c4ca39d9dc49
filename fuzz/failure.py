"""What a run shows: a wrong answer, or a probe that was reached, each with its trace.

Invariant: it is data, and holds no target; with its trace a new target can show it again. Two
failures with one identity are reported as one.
"""

from __future__ import annotations

import attrs

from fuzz.descriptions import describe_error
from fuzz.former_names import oracle_named
from fuzz.oracles import RERUN_ORACLES, RerunOracle
from fuzz.oracles.heap import HeapOracle
from fuzz.protocol.actions import NAMES, Action
from fuzz.protocol.observation import MEMORY
from fuzz.protocol.trace import EarlierTrace

BROKE, UNCLEAR, FIXED = "broke", "unclear", "fixed"
STILL_FAILS, OBSERVABLE = "still-fails", "observable"
CHANGES = BROKE, UNCLEAR, FIXED, STILL_FAILS, OBSERVABLE
"""What a change of a target did, the worst first. It is unclear if the failure is too rare."""


@attrs.frozen
class Failure:
    """A wrong answer: what an oracle reported of it, and the trace that ends with it."""

    oracle: str = attrs.field(converter=oracle_named)
    field: str
    action: str
    """The kind of the last action, whose answer is wrong."""
    direction: str
    expected: str
    got: str
    why: str
    where: str = ""
    """The object that is wrong, and its field, if it is in one."""
    change: str = BROKE
    """What a change of the target did. A target that is not compared is broken."""
    configuration: dict[str, int] = attrs.Factory(dict)
    actions: tuple[Action, ...] = ()
    excluded: tuple[str, ...] = ()
    """The fields that no oracle judged in this trace."""
    is_late: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether earlier answers of the trace in this field may be wrong, as before the change."""
    started_with: tuple[str, ...] = ()
    """The options with which the target was started, if it reports them."""
    exhausted: tuple[int, ...] = attrs.field(default=(), eq=False, repr=False)
    """The places of the actions that were exhausted, and appended no slot."""
    complaint: str = attrs.field(default="", eq=False, repr=False)
    """What a program that broke wrote on standard error."""
    traceback: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)
    """The last lines of the traceback, if a target in this process raised an exception."""
    earlier: tuple[EarlierTrace, ...] = attrs.field(default=(), eq=False, repr=False)
    """The traces that the same process carried out before. The failure may need them."""

    @property
    def what_happened(self) -> str:
        """A sentence about a target that failed to answer; empty if it answered wrongly."""
        if (self.oracle, self.field) != (HeapOracle.name, "error"):
            return ""
        return describe_error(self.got, self.why)

    @property
    def message(self) -> str:
        """What the oracle reported, in one line."""
        if self.change == OBSERVABLE:
            return f"{self.field}: before {self.expected}, after {self.got} ({self.why})"
        if self.what_happened:
            return f"{self.oracle}: {self.what_happened}"
        what = self.where or self.field
        return f"{self.oracle}: {what}: expected {self.expected}, got {self.got} ({self.why})"

    @property
    def kind(self) -> tuple[str, ...]:
        """Oracle, field, the kind of the last action, and direction.

        An observable difference is reported once a field. The memory that a program takes belongs
        to the whole trace, and is seen after any of its actions.
        """
        if self.change == OBSERVABLE:
            return (self.field,)
        if self.direction == MEMORY:
            return self.oracle, self.field, self.direction
        return self.oracle, self.field, self.action, self.direction

    @property
    def identity(self) -> tuple[str, ...]:
        """What two equal failures have in common: their kind, and what a change did to them."""
        return self.kind if self.change == BROKE else (self.change, *self.kind)

    def without_trace(self) -> Failure:
        """What the oracle reported, without the trace."""
        reported = self.oracle, self.field, self.action, self.direction
        return Failure(*reported, self.expected, self.got, self.why, self.where, self.change)

    @property
    def rerun_oracles(self) -> list[RerunOracle]:
        """The oracle that has to run the trace twice to see this failure, if one has."""
        return [oracle for name, oracle in RERUN_ORACLES.items() if name == self.oracle]


@attrs.frozen
class Reaching:
    """A probe, and the actions up to the one that reaches it. It is not a failure."""

    configuration: dict[str, int]
    actions: tuple[Action, ...]
    probe: str
    exhausted: tuple[int, ...] = attrs.field(default=(), eq=False, repr=False)
    """See Failure."""

    @property
    def identity(self) -> tuple[str, str]:
        """What makes two of them the same: the probe, and the kind of action that reaches it."""
        return self.probe, NAMES[type(self.actions[-1])]
