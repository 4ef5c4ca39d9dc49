"""The targets `reference` and `reference-*`: gcmodel in this process, with the rules of samplers.

Their contracts are written in figures. Start reading with `collector`; `planting` creates a
reference with known bugs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pkgutil import resolve_name

import attrs

from fuzz.protocol.target import Target
from fuzz.targets.options import TargetOptions
from fuzz.targets.registration import Registration


@attrs.frozen(kw_only=True)
class Reference(Registration):
    """A class of target in this folder."""

    hosts_bugs = True

    chunk_actions: int = 131_072
    place: str
    """MODULE:CLASS"""

    def make(self, options: TargetOptions, bugs: Sequence[str] = ()) -> Target:
        kind = resolve_name(f"{__name__}.{self.place}")
        parts = kind.PARTS
        if bugs:
            from fuzz.targets.references.planting import parts_with

            parts = attrs.evolve(parts, **parts_with(self.name, bugs))
        made: Target = kind("+".join((self.name, *bugs)), parts, options.without)
        return made


_PLACES = {
    "reference": ("collector:ReferenceTarget", "in this process"),
    "reference-geometric": ("geometric:GeometricTarget", "with distances that have a known seed"),
    "reference-random": ("geometric:RandomTarget", "with distances that no seed predicts"),
    "reference-finalizers": (
        "with_finalizers:FinalizersTarget",
        "with finalizers and ephemerons like PyPy's",
    ),
    "reference-exhaustion": (
        "with_limit:LimitTarget",
        "with finalizers, and a heap that may be full",
    ),
    "reference-groups": (
        "with_groups:GroupsTarget",
        "which allocates several objects at once, as compiled code does",
    ),
    "reference-unfolded": (
        "unfolded:UnfoldedTarget",
        "which allocates arrays in two blocks, and groups one by one",
    ),
    "reference-threads": (
        "with_threads:ThreadsTarget",
        "with finalizers, and threads that end and begin",
    ),
    "reference-dotnet": ("dotnet:DotnetTarget", "which samples like .NET 10"),
    "reference-dotnet-document": (
        "dotnet:DotnetDocumentTarget",
        "which samples like .NET's design document",
    ),
    "reference-hotspot": ("tlabs:TlabTarget", "which samples like HotSpot 25"),
    "reference-hotspot-17": ("tlabs:ChargingTarget", "which samples like HotSpot 11 to 24"),
    "reference-jemalloc": ("allocators:JemallocTarget", "which samples like jemalloc 5.3.0"),
    "reference-tcmalloc": ("allocators:TcmallocTarget", "which samples like google/tcmalloc"),
    "reference-gperftools": ("allocators:GperftoolsTarget", "which samples like gperftools 2.10"),
}
TARGETS = tuple(
    Reference(name=name, place=place, description=f"gcmodel, {how}")
    for name, (place, how) in _PLACES.items()
)
REFERENCES = {each.name: each for each in TARGETS}
