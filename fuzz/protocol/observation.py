"""Observations: what a target says after one action.

A field is None where it does not apply, or where the target's contract does not promise it.
Nothing that differs from run to run (time, memory of the process) stands in an observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import attrs

HANG = "hang"
"""An error begins with this where a program did not answer in time."""
MEMORY = "memory"
"""An error begins with this where a program took more memory than it may."""
SILENT = "it ended without a word"
"""And ends with this where a program crashed and wrote nothing on standard error."""
MAJOR_STATES = ("scanning", "marking", "sweeping", "finalizing")
"""What the numbers of `state` and `major_state` mean."""
SURVIVED = 1
OUTSIDE = 2
TYPE_SHIFT = 2
"""What the bits of a report's entry mean; see Report."""


@attrs.define
class Report:
    """What a minor collection says of the samples since the one before it.

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

    samples: int = 0
    minors: int = 0
    order: str = ""
    """A letter an event, in order: s sample, M minor collection, R report."""
    size: int | None = None
    """The bytes counted for the object just allocated, or those that the block has room for."""
    outside: bool | None = None
    at: int | None = None
    """The offset of the object just allocated from the start of the nursery; or, where its thread
    has a buffer that lies anywhere, from the start of that, if it lies in it."""
    buffer: int | None = None
    """The bytes of the buffer that the object's thread has just begun."""
    ended: bool | None = None
    """True if the context of the object's thread had ended before, and something was left of it."""
    seed: int | None = None
    """What a thread that begins has seeded the generator with that all share."""
    tlab: list[int] | None = None
    """Of the buffer that the object's thread has then: where it begins, how far it is used, where
    it ends, and where without regard to sampling, as offsets from the start of the nursery."""
    value: int | None = None
    alive: bool | None = None
    identity: int | None = None
    profile: list[int] | None = None
    """How many objects the samples of what is alive stand for, and how many bytes."""
    offsets: list[int] = attrs.Factory(list)
    """For each sample the byte of the object that was drawn, the first being 0."""
    weights: list[int] = attrs.Factory(list)
    """For each sample the bytes of allocation that it stands for."""
    reports: list[Report] = attrs.Factory(list)
    graph: list[list[int]] | None = None
    """A row an object, in the order of discovery from the roots, then the prebuilt objects,
    breadth first: type index, number or length, and for each reference that is not null the field
    and the row of the object found there."""
    free: int | None = None
    limit: int | None = None
    top: int | None = None
    sample_point: int | None = None
    """Null while sampling is off."""
    state: int | None = None
    """The major collection's, an index into MAJOR_STATES."""
    memory: list[int] | None = None
    """After a full collection: the bytes in use outside the nursery, and those of all arenas."""
    shares: list[list[int]] | None = None
    """Of each thread that has run at once with the others: what it has read, how many of its
    objects were sampled, and their bytes."""
    error: str | None = None
    """The name of an error and what it says, if the target could not carry out the action."""

    def with_fields(self, fields: Mapping[str, Any]) -> Observation:
        """The same but for these fields. (attrs.evolve takes four times as long.)"""
        other = Observation(*values_of(self))
        for name, value in fields.items():
            setattr(other, name, value)
        return other


FIELDS = tuple(field.name for field in attrs.fields(Observation))
"""The names of all that an observation may say, in this order."""
values_of = attrgetter(*FIELDS)
