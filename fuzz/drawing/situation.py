"""What an action is drawn from: a source of choices, and the state of the trace.

Both engines draw through `Choices`, which makes one kind of choice: a number below another. So a
rule does not know which engine asks, and Hypothesis can make each choice simpler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

import attrs

from fuzz.mutator.objects import ShadowObject
from fuzz.oracles import Bench
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract

T = TypeVar("T")
Scenario = Iterator[Action]
"""A started scenario: its actions, each drawn when it is asked for."""

ROOTS_MAX = 8
OBJECTS_MAX = 24
"""Nothing is allocated in a heap of that many roots or objects, to keep long traces fast."""


class Choices(ABC):
    """A source of choices. Smaller numbers are the simpler choices."""

    @abstractmethod
    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""

    def one_in(self, count: int) -> bool:
        """True once in `count` times; the simplest choice is False."""
        return self.below(count) == count - 1

    def between(self, minimum: int, maximum: int) -> int:
        """A number from `minimum` to `maximum`, both included."""
        return minimum + self.below(maximum - minimum + 1)

    def pick(self, among: Sequence[T]) -> T:
        """One of the elements; the first is the simplest."""
        return among[self.below(len(among))]

    def log_between(self, minimum: int, maximum: int) -> int:
        """A number in that range; each power of two is about as likely as the next."""
        octaves = (maximum // minimum).bit_length()
        base = minimum << self.below(octaves)
        return min(base + self.below(base), maximum)


@attrs.define
class Situation:
    """What rules and scenarios draw from: the contract, and the state of the oracles."""

    contract: Contract
    bench: Bench
    objects: int = 0
    """How many objects the last walk through the heap found."""
    state: int | None = None
    """The state of the major collection after the last action, if the target shows it."""
    scenario: Scenario | None = None
    """The scenario that goes on, if any."""
    found_legal: Action | None = None
    """The next action of the scenario, if the scenario itself has checked that it is legal."""
    thread: int = 0
    """The thread of the next action."""
    done: defaultdict[tuple[type[Action], int | None], int] = attrs.Factory(
        lambda: defaultdict(int)
    )
    """How often the trace has done each kind of action in each state of the collector."""
    roots: list[ShadowObject] = attrs.field(init=False, repr=False)
    threads: int = attrs.field(init=False)
    keeps_blocks: bool = attrs.field(init=False)
    """Whether the target allocates blocks and frees none.

    With a limit on such blocks, each trace would end after eight actions."""

    def __attrs_post_init__(self) -> None:
        self.roots = self.bench.shadow.roots
        self.threads = self.contract.threads
        actions = self.contract.actions
        self.keeps_blocks = "malloc" in actions and "free" not in actions

    def take_turn(self, choices: Choices) -> None:
        """Let one of the threads that have not ended take the next action."""
        drawn = choices.below(self.threads)
        self.thread = 0 if drawn in self.bench.shadow.ended_threads else drawn

    def threads_to_end(self) -> Sequence[int]:
        """The threads that may end: all that have not, but the first one."""
        ended = self.bench.shadow.ended_threads
        return [thread for thread in range(1, self.threads) if thread not in ended]

    def has_slot(self) -> bool:
        """Whether one more root may be added. There is no limit on blocks that are never freed."""
        return len(self.roots) < ROOTS_MAX or self.keeps_blocks

    def may_allocate(self) -> bool:
        """Whether one more object may be allocated."""
        return self.objects < OBJECTS_MAX and self.has_slot()
