"""What the sessions of a night reached, by target: probes, and combinations of facts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from fuzz.nights.failure_history import FactsReached
from fuzz.sessions.plan import PlanKey, SessionTotals
from fuzz.sessions.reach import ReachedCombinations, reached_of
from fuzz.sessions.record import SessionRecord


def target_name(plan: PlanKey) -> str:
    """The target of a plan, with the name that distinguishes it from others."""
    return f"{plan.target} {plan.name}".rstrip()


def probes_of(sessions: Iterable[SessionRecord]) -> dict[str, Counter[str]]:
    """How often each probe of a target was reached, by target."""
    sums: dict[str, Counter[str]] = {}
    for session in sessions:
        sums.setdefault(target_name(session.plan), Counter()).update(session.totals.probes)
    return sums


def reached_in(probes: Mapping[str, Counter[str]]) -> int:
    """How many probes were reached."""
    return sum(times > 0 for counts in probes.values() for times in counts.values())


def combinations_of(sessions: Iterable[SessionRecord]) -> dict[str, list[ReachedCombinations]]:
    """Which pairs and triples of facts any session of a target reached, by target.

    A target is left out if none of its sessions had `--combinations`.
    """
    sums: dict[str, SessionTotals] = defaultdict(SessionTotals)
    for session in sessions:
        sums[target_name(session.plan)].add_all(session.totals)
    held = {target: sums[target].held for target in sorted(sums) if sums[target].held}
    return {target: [*reached_of(each)][1:] for target, each in held.items()}


def facts_reached(sessions: Iterable[SessionRecord]) -> tuple[FactsReached, ...]:
    """The same as numbers, for the history."""
    return tuple(
        FactsReached(target, pairs.count, pairs.possible, triples.count, triples.possible)
        for target, (pairs, triples) in combinations_of(sessions).items()
    )
