"""Whether a trace means the same under another contract than the one in its header.

This compares only what the trace uses: what its objects cost, the sampling rule if sampling is ever
on, and the prebuilt objects. No sample depends on the size of the nursery.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import attrs

from fuzz.protocol.actions import AllocateGroup, Realloc
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.lines import unstructured
from fuzz.protocol.trace import Trace

NOT_OF_SAMPLES = (
    *("period_bytes", "periods", "disabling", "pinning"),  # What is legal.
    *("estimates", "weights", "own_bytes", "setting_period"),  # What is reported about samples.
    "realloc",  # Whether a block moves.
)
RULE_FIELDS = tuple(
    field.name for field in attrs.fields(SamplingRule) if field.name not in NOT_OF_SAMPLES
)
"""The keys of a sampling rule that decide when an allocation is sampled."""
BLOCK_FIELDS = ("size_classes", "page_bytes", "shared_bytes", "shared_rounded")
"""The keys of a layout that decide how much room a block has."""


def disagreement(trace: Trace, contract: Contract) -> str | None:
    """How `contract` differs from the one in the trace's header, in a sentence; None if not."""
    recorded_contract = trace.header.contract
    if recorded_contract is None:
        return None
    for name, then, now in _compared(trace, recorded_contract, contract):
        if then != now:
            was, is_now = (json.dumps(unstructured(value)) for value in (then, now))
            return f"the trace was made under a contract with {name} {was}; here it is {is_now}"
    return None


def _compared(trace: Trace, then: Contract, now: Contract) -> Iterator[tuple[str, object, object]]:
    kinds = {action.kind for action in trace.actions if action.kind}
    groups = [action for action in trace.actions if isinstance(action, AllocateGroup)]
    kinds |= {member.kind for group in groups for member in group.members}
    for name in ("large_object_bytes", "word_bytes") if kinds else ():
        yield name, getattr(then.layout, name), getattr(now.layout, name)
    for kind in sorted(kinds):
        yield kind, then.layout.kinds.get(kind), now.layout.kinds.get(kind)
    for name in BLOCK_FIELDS if "block" in kinds else ():
        yield name, getattr(then.layout, name), getattr(now.layout, name)
    if any(isinstance(action, Realloc) for action in trace.actions):
        yield "realloc", then.sampling.realloc, now.sampling.realloc
    initially = then.sampling.initial_period_bytes or now.sampling.initial_period_bytes
    if initially or any(action.sampling == "starts" for action in trace.actions):
        for name in RULE_FIELDS:
            yield name, getattr(then.sampling, name), getattr(now.sampling, name)
        for name in _group_fields(then) if groups else ():
            yield (
                f"groups.{name}",
                getattr(then.groups, name, None),
                getattr(now.groups, name, None),
            )
    yield "prebuilt", then.prebuilt, now.prebuilt


def _group_fields(contract: Contract) -> Iterator[str]:
    """The keys of groups that decide about samples.

    If each byte is sampled by itself, those of a group are the same however it counts.
    """
    yield "sampled"
    if contract.sampling.surplus == "dropped" or contract.sampling.samples_per_allocation == "one":
        yield "counted"
