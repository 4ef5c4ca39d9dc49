"""The targets that are gcmodel, by name, each with the parts of which it is made.

A known bug is planted in one of them, its host, in place of some of these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs

from fuzz.protocol.target import Target
from fuzz.targets.bugs.known_bugs import planted_parts
from fuzz.targets.references.allocators import GperftoolsTarget, JemallocTarget, TcmallocTarget
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.targets.references.dotnet import DotnetTarget
from fuzz.targets.references.geometric import GeometricTarget, RandomTarget
from gcmodel import CONTEXTS, Parts
from gcmodel.blocks.block_heap import GPERFTOOLS, JEMALLOC, TCMALLOC


@attrs.frozen
class Reference:
    """How to make one of these targets, and of which parts."""

    make: Callable[..., Target]
    parts: Any


REFERENCES = {
    "reference": Reference(ReferenceTarget, Parts()),
    "reference-geometric": Reference(GeometricTarget, Parts()),
    "reference-random": Reference(RandomTarget, Parts()),
    "reference-dotnet": Reference(DotnetTarget, CONTEXTS),
    "reference-jemalloc": Reference(JemallocTarget, JEMALLOC),
    "reference-tcmalloc": Reference(TcmallocTarget, TCMALLOC),
    "reference-gperftools": Reference(GperftoolsTarget, GPERFTOOLS),
}


def make_reference(
    base: str, name: str, bugs: Sequence[str], without: Collection[str] = ()
) -> Target:
    """The target `base`, with these bugs planted, under that name."""
    reference = REFERENCES[base]
    parts = attrs.evolve(reference.parts, **planted_parts(bugs))
    return reference.make(name, parts, without)
