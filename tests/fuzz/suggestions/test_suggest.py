"""`gcfuzz check --suggest`: finds the wrong keys of a contract, and explains no bug away."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from itertools import combinations

import attrs
import pytest
from night import IS_NIGHT, part_of
from small_sampler import Alternating, AtThePeriod, Keeping, OneByOne, SmallSampler
from target_helpers import Changed, installed

from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.target import Target
from fuzz.suggestions.candidates import candidates_for
from fuzz.suggestions.change import Change, Changes, changed
from fuzz.suggestions.suggest import FRESH_TRACES, TRACES, Suggestion, suggest
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES

OF_BLOCKS = {f"sampling.{key}" for key in ("counts", "realloc", "setting_period")}
SIZES = (
    Change("layout.word_bytes", 4),
    Change("layout.kinds.string.fixed_bytes", 32),
    Change("layout.kinds.string.fixed_bytes", 24),
    Change("layout.kinds.string.item_bytes", 2),
    Change("layout.kinds.array.item_bytes", 4),
)
SAMPLE = {1: 14, 2: 7}
"""How many contracts the night tries, by how many of their keys are spoiled."""
SAMPLE_IN_CI = {1: 7, 2: 3}
ENOUGH = 0.9


def spoiled_keys(right: Contract) -> Iterator[Change]:
    """Changes after which the right value is a candidate."""
    has_blocks = "block" in right.layout.kinds
    for change in candidates_for(right):
        wrong = changed(right, (change,))
        back = (change.key, change.stated(right))
        is_judged = has_blocks or change.key not in OF_BLOCKS
        if is_judged and any((each.key, each.value) == back for each in candidates_for(wrong)):
            yield change
    if not has_blocks:
        yield from (change for change in SIZES if change.stated(right) != change.value)


def spoiled_contracts() -> Iterator[tuple[str, Changes]]:
    """A sample that is drawn again only if a key or a reference is new; CI takes a part of it."""
    drawn = random.Random(56)
    for count, sample in SAMPLE.items():
        all_of_them = [
            (name, keys)
            for name in REFERENCES
            for right in [make_target(name).start({})]
            for keys in combinations(spoiled_keys(right), count)
            if not any(one.excludes(other) for one, other in combinations(keys, 2))
            and not any(problems_of(changed(right, keys)))
        ]
        yield from drawn.sample(all_of_them, sample)[: None if IS_NIGHT else SAMPLE_IN_CI[count]]


@attrs.frozen
class Found:
    spoiled: str
    right: set[tuple[str, object]]
    suggestion: Suggestion

    @property
    def fits(self) -> list[set[tuple[str, object]]]:
        return [{(each.key, each.value) for each in changes} for changes in self.suggestion.fits]

    @property
    def is_found(self) -> bool:
        """A spoiled key that no answer shows, such as one of pausing without pauses, may remain."""
        return any(fit <= self.right for fit in self.fits)


@pytest.fixture(scope="module")
def found() -> list[Found]:
    """What is suggested for each spoiled contract.

    Most of the time goes into fresh traces. They confirm what fits, and add nothing that does.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fuzz.suggestions.suggest.FRESH_TRACES", part_of(FRESH_TRACES))
        return suggestions()


def suggestions() -> list[Found]:
    results = []
    for name, keys in spoiled_contracts():
        right = make_target(name).start({})
        target = Changed(make_target(name), partial(changed, changes=keys))
        spoiled = f"{name}: {[key.text for key in keys]}"
        wanted = {(key.key, key.stated(right)) for key in keys}
        results.append(Found(spoiled, wanted, suggest(target)))
    return results


@pytest.mark.slow
def test_the_wrong_keys_are_found_in_nine_of_ten_contracts(found: list[Found]) -> None:
    missed = [each.spoiled for each in found if not each.is_found]
    assert len(missed) <= (1 - ENOUGH) * len(found), missed


@pytest.mark.slow
def test_no_contract_is_found_without_the_right_one(found: list[Found]) -> None:
    assert [each.spoiled for each in found if each.fits and not each.is_found] == []


@pytest.mark.slow
def test_most_spoiled_contracts_do_not_fit(found: list[Found]) -> None:
    visible = [each for each in found if set() not in each.fits]
    assert len(visible) >= len(found) // 2


# A real allocator.


def texts(suggestion: Suggestion) -> list[list[str]]:
    return [[change.text for change in changes] for changes in suggestion.fits]


@pytest.mark.slow
def test_real_gperftools_fits_its_contract() -> None:
    assert texts(suggest(installed("gperftools"))) == [[]]


@pytest.mark.slow
@pytest.mark.parametrize(("key", "wrong"), [("crosses", "at"), ("counts", "size")])
def test_the_wrong_key_of_real_gperftools_is_found(key: str, wrong: str) -> None:
    change, target = Change(f"sampling.{key}", wrong), installed("gperftools")
    right = change.stated(target.default_contract())
    assert texts(suggest(Changed(target, change.applied))) == [[f"{key}: {right}"]]


# Bugs.

UNEXPLAINED = (
    "reference+sample-point-stays",
    "reference+large-objects-uncounted",
    "reference+restart-loses-period",
    "reference+pressure-taken-for-sample",
    "reference-jemalloc+samples-while-suspended",
    "reference-jemalloc+slow-path-counts-twice",
    "reference-jemalloc+marker-size",
    "reference-gperftools+zero-size-wraps",
    "reference-geometric+first-offset-mask",
    "reference-hotspot+outside-tlab-desync",
)


@pytest.mark.slow
@pytest.mark.parametrize("target", UNEXPLAINED)
def test_a_planted_bug_is_not_explained_by_an_odd_rule(target: str) -> None:
    found = suggest(make_target(target))
    assert texts(found) == []
    assert found.prefix is not None


def test_a_bug_is_refuted_by_a_short_prefix() -> None:
    found = suggest(Alternating())
    assert texts(found) == []
    assert found.prefix is not None
    assert found.prefix.length <= 6


# Small samplers.


@pytest.mark.parametrize(
    ("target", "keys"),
    [
        (SmallSampler(), []),
        (AtThePeriod(), ["crosses: at"]),
        (SmallSampler(crosses="at", surplus="dropped"), ["crosses: beyond", "surplus: carried"]),
        (OneByOne(), ["surplus: due", "samples_per_allocation: one"]),
        (Keeping(), ["enabling: keeps"]),
    ],
    # An address in a name would differ in each process that collects.
    ids=lambda value: str(value) if isinstance(value, list) else type(value).__name__,
)
def test_the_keys_of_a_small_sampler_are_found(target: Target, keys: list[str]) -> None:
    assert texts(suggest(target)) == [keys]


@pytest.mark.slow
def test_what_fits_is_confirmed_by_fresh_traces() -> None:
    found = suggest(AtThePeriod())
    assert (found.traces, found.fresh) == (TRACES, FRESH_TRACES)


@pytest.mark.slow
def test_the_same_target_gets_the_same_suggestion() -> None:
    assert suggest(Alternating()) == suggest(Alternating())


@pytest.mark.slow
def test_a_candidate_without_a_value_for_an_answer_is_refuted() -> None:
    """Weights of whole objects are a candidate, and have none for a block of no bytes."""
    name = "reference-tcmalloc"
    right = make_target(name).start({})
    wrong = Change("sampling.weights", "since"), Change("sampling.paused", "counting")
    target = Changed(make_target(name), partial(changed, changes=wrong))
    found = suggest(target)
    assert [Change("sampling.weights", right.sampling.weights)] in [[*each] for each in found.fits]


def test_a_contract_that_observes_nothing_of_a_rule_is_bad_input() -> None:
    def silent(stated: Contract) -> Contract:
        return attrs.evolve(stated, observes=(), actions=("allocate_string", "free"))

    with pytest.raises(BadInputError, match="needs samples, size or outside in observes"):
        suggest(Changed(SmallSampler(), silent))
