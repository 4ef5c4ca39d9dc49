"""Whether a trace means the same under another contract than the one that it was made under.

Only what the trace uses matters: what its objects cost, when they are sampled if sampling is ever
enabled, the prebuilt objects. The size of the nursery does not, since no sample depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fuzz.actions import ALLOCATIONS, EnableSampling, Realloc, SetCallback, kind_of
from fuzz.contract import Contract
from fuzz.lines import unstructured
from fuzz.trace import Trace

RULE_FIELDS = (
    *("counts", "crosses", "surplus", "samples_per_allocation", "context_bytes"),
    *("paused", "distances", "seeds", "initial_period_bytes", "first_bytes", "reseeds"),
)
"""What of a sampling rule says when an allocation is sampled."""
BLOCK_FIELDS = ("size_classes", "page_bytes")
"""What of a layout says how much room a block has."""


def disagreement(trace: Trace, contract: Contract) -> str | None:
    """How `contract` differs from the one in the trace's header, in a sentence; None if not."""
    made_under = trace.header.contract
    if made_under is None:
        return None
    for name, then, now in _compared(trace, made_under, contract):
        if then != now:
            was, is_now = (json.dumps(unstructured(each)) for each in (then, now))
            return f"the trace was made under a contract with {name} {was}; here it is {is_now}"
    return None


def _compared(trace: Trace, then: Contract, now: Contract) -> Iterator[tuple[str, object, object]]:
    kinds = _kinds_used(trace)
    for name in ("large_object_bytes", "word_bytes") if kinds else ():
        yield name, getattr(then.layout, name), getattr(now.layout, name)
    for kind in sorted(kinds):
        yield kind, then.layout.kinds.get(kind), now.layout.kinds.get(kind)
    for name in BLOCK_FIELDS if "block" in kinds else ():
        yield name, getattr(then.layout, name), getattr(now.layout, name)
    if any(isinstance(action, Realloc) for action in trace.actions):
        yield "realloc", then.sampling.realloc, now.sampling.realloc
    initially = then.sampling.initial_period_bytes or now.sampling.initial_period_bytes
    if initially or any(isinstance(action, EnableSampling) for action in trace.actions):
        for name in RULE_FIELDS:
            yield name, getattr(then.sampling, name), getattr(now.sampling, name)
    yield "prebuilt", then.prebuilt, now.prebuilt


def _kinds_used(trace: Trace) -> set[str]:
    kinds = {kind_of(action) for action in trace.actions if type(action) in ALLOCATIONS}
    if any(isinstance(action, SetCallback) for action in trace.actions):
        kinds.add("string")
    return kinds
