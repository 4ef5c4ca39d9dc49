"""Observations: what a target reports after one action.

A field is None if it does not apply, or if the contract does not observe it. An observation
contains nothing that differs from run to run, such as time or the memory of the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import attrs

from fuzz.protocol.counting.limits import Count

HANG = "hang"
"""The beginning of an error if a program did not answer in time."""
MEMORY = "memory"
"""The beginning of an error if a program took more memory than it may."""
SILENT = "it ended without a word"
"""The end of an error if a program crashed and wrote nothing to standard error."""
MAJOR_STATES = ("scanning", "marking", "sweeping", "finalizing")
"""The meanings of `state` and `major_state`."""
SURVIVED = 1
OUTSIDE = 2
TYPE_SHIFT = 2
"""The bits of a report's entry; see Report."""


@attrs.define
class Report:
    """What a minor collection reports about the samples since the previous one.

    An entry is `type_index << TYPE_SHIFT`, with OUTSIDE for an object outside the nursery and
    SURVIVED for one that survived.
    """

    entries: list[int]
    memory_used_bytes: int
    arena_bytes: int
    major_state: int


@attrs.define
class Observation:
    """The answer to one action."""

    samples: Count = 0
    minors: Count = 0
    order: str = ""
    """One letter for each event, in order: s sample, M minor collection, R report."""
    size: int | None = None
    """The bytes that the allocated object counts, or the room of the block."""
    outside: bool | None = None
    at: int | None = None
    """The offset of the allocated object from the start of the nursery. If threads have buffers
    that lie anywhere: from the start of its buffer, if it lies in one. Of a large block that is
    placed by chance: from the start of its page, if it was moved there."""
    buffer: int | None = None
    """The size of the buffer that the object's thread has started for it."""
    ended: bool | None = None
    """True if the context of the object's thread ended before, with something left of it."""
    seed: int | None = None
    """The seed with which a new thread, or enabling, starts a generator."""
    tlab: list[int] | None = None
    """The buffer of the object's thread, as offsets from the start of the nursery: its start, how
    far it is used, its end, and its end without sampling."""
    value: int | None = None
    alive: bool | None = None
    identity: int | None = None
    profile: list[int] | None = None
    """How many objects, and how many bytes, the samples of living blocks stand for; if estimates
    are `dumped`, then those of all blocks."""
    offsets: list[int] = attrs.Factory(list)
    """For each sample, the sampled byte of the object, from 0."""
    weights: list[int] = attrs.Factory(list)
    """For each sample, the bytes of allocation that it stands for."""
    samples_by_member: list[int] | None = None
    """How many samples name each member of the allocated group."""
    members: list[Observation] | None = None
    """If each member of a group counts by itself: the answer to each, as if it had been allocated
    alone. The other fields follow from these; see `summed`."""
    reports: list[Report] = attrs.Factory(list)
    graph: list[list[int]] | None = None
    """One row for each object, in the order of discovery from the roots and then the prebuilt
    objects, breadth first. A row has the type's index, the number or length, and for each reference
    that is not null its field and the row of its object."""
    contents: list[list[int]] | None = None
    """One row for each string and block, in the order of `graph`. It has the object's number. If a
    byte is wrong, its offset and up to 16 bytes from there follow. If the contract's `contents` are
    checksums, the row has the CRC-32 of all bytes instead."""
    free: int | None = None
    limit: int | None = None
    top: int | None = None
    sample_point: int | None = None
    """None while sampling is off."""
    state: int | None = None
    """The state of the major collection, an index into MAJOR_STATES."""
    memory: list[int] | None = None
    """After a full collection: the bytes in use outside the nursery, and those of all arenas."""
    shares: list[list[int]] | None = None
    """For each thread that ran at once with the others: what it read, how many of its objects were
    sampled, and their bytes."""
    finalized: list[int] = attrs.Factory(list)
    """The numbers of the finalizers that were run, in order."""
    exhausted: bool = False
    """Whether the action failed for lack of memory. It has collected, and nothing else."""
    error: str | None = None
    """The name and message of an error, if the target could not perform the action."""

    def with_fields(self, fields: Mapping[str, Any]) -> Observation:
        """A copy with other values. (attrs.evolve takes four times as long.)"""
        other = Observation(*values_of(self))
        for name, value in fields.items():
            setattr(other, name, value)
        return other


def summed(answer: Observation) -> Observation:
    """The answer itself. If it has one for each member, its own fields are those of all together.

    What happened is added up. What describes the heap afterwards is that of the last member.
    """
    members = answer.members
    if not members or answer.error is not None:
        return answer
    sizes = [member.size for member in members]
    return members[-1].with_fields(
        {
            "samples": sum(member.samples for member in members),
            "minors": sum(member.minors for member in members),
            "order": "".join(member.order for member in members),
            "size": None if None in sizes else sum(filter(None, sizes)),
            "at": members[0].at,
            "offsets": [],
            "weights": [weight for member in members for weight in member.weights],
            "samples_by_member": [member.samples for member in members],
            "members": members,
            "reports": [report for member in members for report in member.reports],
        }
    )


FIELDS = tuple(field.name for field in attrs.fields(Observation))
"""The names of all fields, in this order."""
values_of = attrgetter(*FIELDS)
