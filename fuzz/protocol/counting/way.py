"""What all ways to count have in common: what the generic parts may ask of one.

Invariant: no generic part names a way, or a key of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

import attrs

from fuzz.problems import did_you_mean

SAMPLES = ("samples", "samples_by_member", "profile", "offsets", "weights")
"""The fields of observations that depend on the distances."""
DRAWN: Mapping[str, object] = {"is_drawn": True}
ONE_SAMPLE: Mapping[str, object] = {"samples_per_allocation": "one"}
ONE_DRAW: Mapping[str, object] = {"surplus": "dropped", **ONE_SAMPLE}
"""Parts of a rule: a generator draws distances; an allocation takes one sample; it passes one
distance."""


class StatedContract(Protocol):
    """What a key reads of the contract that has it, to check itself."""

    @property
    def nursery_bytes(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def layout(self) -> Any: ...  # noqa: ANN401 - a Layout, whose module imports this one
    @property
    def sampling(self) -> Any: ...  # noqa: ANN401 - a SamplingRule
    @property
    def actions(self) -> tuple[str, ...]: ...
    @property
    def observes(self) -> tuple[str, ...]: ...
    @property
    def batch(self) -> bool: ...
    @property
    def groups(self) -> Any: ...  # noqa: ANN401 - a Groups or None, whose module imports this one


@attrs.frozen
class Way:
    """A way to count bytes. Its class attributes and methods hold for most ways."""

    by: ClassVar[str]
    """Its name in contracts, of its module, and of its clock's module."""
    has_local_buffers: ClassVar[bool] = False
    """Whether each thread allocates in its own part of the nursery."""
    local_buffers_end_distances: ClassVar[bool] = False
    """Whether a distance begins and ends with its thread's part of the nursery."""
    shows_local_buffers: ClassVar[bool] = False
    """Whether an observation's `tlab` can show that part."""
    counts_frees: ClassVar[bool] = False
    """Whether freed bytes count."""
    needs: ClassVar[Mapping[str, object]] = {}
    """Attributes of the sampling rule, and the values that they must have."""
    excludes: ClassVar[frozenset[str]] = frozenset()
    """The actions, and the fields of observations, that a contract must not list."""

    @property
    def depends_on_collections(self) -> bool:
        """Whether a collection changes what is counted, so a larger nursery changes samples."""
        return self.has_local_buffers

    @property
    def edge_bytes(self) -> tuple[int, ...]:
        """The counted bytes of allocations at which it behaves differently."""
        return ()

    @property
    def samples_before_collecting(self) -> bool:
        """Whether an allocation that collects is sampled before it does."""
        return False

    @property
    def predicts_places(self) -> bool:
        """Whether it predicts where an object lies in its thread's part of the nursery."""
        return False

    @property
    def births_reseed(self) -> bool:
        """Whether a thread that begins starts a generator from the observation's `seed`."""
        return False

    @property
    def needs_observed(self) -> tuple[str, ...]:
        """The fields of observations that a contract must list."""
        return ()

    def left_to_chance(self, has_births: bool) -> tuple[str, ...]:
        """The fields in which the same actions may have other answers the next time."""
        return ()

    def problems(self, contract: StatedContract) -> Iterator[str]:
        """What else is wrong with a contract that counts so, each in a sentence."""
        yield from ()


def unknown_kinds(key: str, kinds: Iterable[str], contract: StatedContract) -> Iterator[str]:
    """For each kind that the layout does not have, a sentence."""
    known = contract.layout.kinds
    for kind in kinds:
        if kind not in known:
            yield f"counting.{key} lists {kind!r}, which is unknown{did_you_mean(kind, known)}"
