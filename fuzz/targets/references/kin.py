"""The targets that are gcmodel, by name, each with the parts of which it is made.

A known bug is planted in one of them, its host, in place of some of these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs

from fuzz.problems import BadInputError, did_you_mean
from fuzz.protocol.target import Target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS, planted_parts
from fuzz.targets.references.allocators import GperftoolsTarget, JemallocTarget, TcmallocTarget
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.targets.references.dotnet import DotnetDocumentTarget, DotnetTarget
from fuzz.targets.references.geometric import GeometricTarget, RandomTarget
from fuzz.targets.references.tlabs import ChargingTarget, TlabTarget
from gcmodel import CONTEXTS, SHIPPED_CONTEXTS, TLABS, TLABS_CHARGED_AHEAD, Parts
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
    "reference-dotnet": Reference(DotnetTarget, SHIPPED_CONTEXTS),
    "reference-dotnet-document": Reference(DotnetDocumentTarget, CONTEXTS),
    "reference-hotspot": Reference(TlabTarget, TLABS),
    "reference-hotspot-17": Reference(ChargingTarget, TLABS_CHARGED_AHEAD),
    "reference-jemalloc": Reference(JemallocTarget, JEMALLOC),
    "reference-tcmalloc": Reference(TcmallocTarget, TCMALLOC),
    "reference-gperftools": Reference(GperftoolsTarget, GPERFTOOLS),
}


def make_reference(name: str, without: Collection[str] = ()) -> Target:
    """The target of that name, BASE or BASE+BUG+BUG, BASE being one of REFERENCES.

    Raises BadInputError if the bugs cannot be planted.
    """
    base, *bugs = name.split("+")
    for bug in bugs:
        _check_bug(bug, base, name)
        if bugs.count(bug) > 1:
            raise BadInputError(f"the bug {bug!r} is planted twice in target {name!r}")
    reference = REFERENCES[base]
    parts = attrs.evolve(reference.parts, **planted_parts(bugs))
    return reference.make(name, parts, without)


def _check_bug(bug: str, base: str, name: str) -> None:
    if not bug:
        raise BadInputError(f"the target {name!r} names no bug after +")
    if bug not in KNOWN_BUGS:
        raise BadInputError(f"unknown bug {bug!r} in target {name!r}{_known_in(base, bug)}")
    host = KNOWN_BUGS[bug].host
    if host != base:
        raise BadInputError(f"the bug {bug!r} can be planted in {host} only, not in {base}")


def _known_in(base: str, wanted: str) -> str:
    """The bug of `base` that may be meant, or else all that can be planted in it."""
    bugs = [bug.id for bug in KNOWN_BUGS.values() if bug.host == base]
    if not bugs:
        return f"; no bug can be planted in {base}"
    return did_you_mean(wanted, bugs) or f"; {base} has {', '.join(bugs)}"
