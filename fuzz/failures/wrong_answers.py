"""All wrong answers of a trace in excluded fields, and not only the first one.

A trace ends with its first wrong answer, since later predictions may depend on it. Here the oracles
judge recorded answers again, and get the right answer in place of each wrong one, as far as the
mismatch states it. Invariants: the first wrong answer is exact. A mismatch in a field that is not
excluded ends the trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import attrs

from fuzz.cancellation import checkpoint
from fuzz.descriptions import Description, describe
from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.excluded import field_of
from fuzz.protocol.observation import Observation
from fuzz.run import RIGHT_GRAPH, Run

PASSES_MAX = 8
"""An oracle raises one mismatch for an action, so a second wrong field needs a second pass."""
LISTS = ("samples_by_member", "offsets", "weights", "tlab")
NUMBERS = (
    *("samples", "size", "outside", "value", "alive", "identity", "at"),
    *("free", "limit", "top", "sample_point"),
)
"""The fields of which a mismatch may state the right value."""
STEPS = ("state", "memory")
"""Later predictions depend on these. If the right value is not known, no later answer is judged."""
UNKNOWN = object()


@attrs.frozen
class WrongAnswer:
    """What is wrong with a field of an answer."""

    mismatch: Mismatch
    description: Description


WrongAnswers = dict[tuple[int, str], WrongAnswer]
"""Wrong answers, by the place of the action, from 0, and the field."""


def wrong_answers(run: Run, excluded: Collection[str]) -> WrongAnswers:
    """The wrong answers in excluded fields, in the order of the actions."""
    right: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    found: WrongAnswers = {}
    for _ in range(PASSES_MAX):
        if not _play_back(run, excluded, right, found):
            break
    return dict(sorted(found.items()))


def _play_back(
    run: Run,
    excluded: Collection[str],
    right: defaultdict[int, dict[str, Any]],
    found: WrongAnswers,
) -> bool:
    """Judge the answers with the `right` values that are known; return whether more are known."""
    bench, kinds, is_new = Bench(run.contract), run.contract.layout.kinds, False
    for number, (action, answer) in enumerate(zip(run.actions, run.answers, strict=False)):
        checkpoint()
        judged = answer.with_fields(right.get(number, {}))
        for mismatch in bench.mismatches(action, judged):
            field = field_of(mismatch.field)
            if field == "graph" and answer.graph == RIGHT_GRAPH:
                continue
            if field not in excluded:
                return is_new
            description = describe(mismatch, action, judged, bench.shadow, kinds)
            found.setdefault((number, field), WrongAnswer(mismatch, description))
            value = _right_value(mismatch, judged)
            if value is UNKNOWN and field in STEPS:
                return is_new
            if value is UNKNOWN:
                continue
            is_new = True
            right[number][field] = value
            setattr(judged, field, value)
            # An earlier pass may have changed a right answer, after a wrong one before it.
            if value == getattr(answer, field):
                del found[number, field]
    return is_new


def _right_value(mismatch: Mismatch, judged: Observation) -> Any:  # noqa: ANN401 - of any field
    field, expected = mismatch.field, mismatch.expected
    if field == "state" and isinstance(expected, list) and len(expected) == 1:
        return expected[0]
    # A sum over several actions is not the answer to one.
    if field not in (*LISTS, *NUMBERS) or mismatch.got != getattr(judged, field):
        return UNKNOWN
    is_legal = expected is None or isinstance(expected, list if field in LISTS else int)
    return expected if is_legal else UNKNOWN
