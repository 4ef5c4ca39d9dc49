"""Excluded fields: fields of an observation that no oracle judges in a trace.

A comparison excludes the fields that are already wrong before the change. An excluded field is
judged as if the contract did not observe it. What depends on it alone is excluded too.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import OF_PROMISES
from fuzz.protocol.observation import FIELDS, Observation

FOLLOWED = ("error", "minors", "seed", "ended", "buffer", "finalized", "exhausted", "members")
"""All later predictions depend on these. A trace is not judged after one of them was wrong."""
_POINTERS = ("free", "limit", "top", "sample_point")
_TOGETHER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_POINTERS, _POINTERS),
    "samples": ("samples", "samples_by_member", "offsets", "weights", "profile"),
}
"""Fields that are excluded together, since they are predicted from each other."""
_PART_OF = {
    **dict.fromkeys(("reported", "entry", "major_state"), "reports"),
    **dict.fromkeys(("memory_used_bytes", "arena_bytes"), "memory"),
    **dict.fromkeys(("objects", "bytes"), "profile"),
    **dict.fromkeys(("read", "sampled_bytes"), "shares"),
    **dict.fromkeys(("thread_weights", "kind_weights"), "weights"),
}


def field_of(name: str) -> str:
    """The field of an observation in which a mismatch is; the mismatch may name a part of it."""
    return _PART_OF.get(name, name)


def excluded_for(name: str) -> frozenset[str]:
    """The fields to exclude after a mismatch in this one; none if the trace ends there."""
    field = field_of(name)
    if field in FOLLOWED or field not in FIELDS:
        return frozenset()
    return frozenset(_TOGETHER.get(field, (field,)))


def judged_contract(contract: Contract, excluded: Collection[str]) -> Contract:
    """The contract without the excluded fields, and without what only they can show."""
    if not excluded:
        return contract
    return attrs.evolve(
        contract,
        observes=tuple(field for field in contract.observes if field not in excluded),
        promises=tuple(name for name in contract.promises if OF_PROMISES[name] not in excluded),
    )


def judged_part(observation: Observation, excluded: Collection[str]) -> Observation:
    """The observation as if it contained none of the excluded fields."""
    if not excluded:
        return observation
    nothing = Observation()
    # Each member has all fields.
    return observation.with_fields(
        {field: getattr(nothing, field) for field in (*excluded, "members")}
    )
