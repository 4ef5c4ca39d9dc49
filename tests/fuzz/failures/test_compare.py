"""Before and after: what a change broke, fixed, left broken, or made observable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count

import attrs
import pytest
from comparing import Changed

from fuzz.failure import BROKE, FIXED, OBSERVABLE, STILL_FAILS, Failure
from fuzz.failures.compare import (
    Pair,
    contract_changes,
    counted_as,
    counted_by_verdict,
    differences,
    name_of_verdict,
)
from fuzz.failures.comparing_engine import ComparingEngine
from fuzz.failures.reduce import reduce_failure
from fuzz.oracles import RERUN_ORACLES
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Prebuilt, Promise
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run, run_actions, run_through
from fuzz.targets import TargetOptions, make_target

BUG, OTHER_BUG = "one-sample-per-object", "sample-on-equality"
KIND = ("sampling", "samples", "allocate_node", "less")
TRIGGER = (do.EnableSampling(8), do.AllocateNode(0))
SLICES = 40


def too_large(_: Action, observation: Observation) -> None:
    if observation.size is not None:
        observation.size += 1


def misreads(action: Action, observation: Observation) -> None:
    if isinstance(action, do.Read):
        observation.value = 7


def numbered_differently(_: Action, observation: Observation) -> None:
    if observation.identity is not None:
        observation.identity += 1000


@pytest.fixture
def buggy() -> Target:
    return make_target(f"reference+{BUG}")


def compared(before: Target, after: Target, *actions: Action) -> list[Failure]:
    def judge(excluded: Collection[str]) -> tuple[Run, Failure | None]:
        return run_through(after, {}, actions, RERUN_ORACLES.values(), excluded)

    return list(differences(before, *judge(()), RERUN_ORACLES.values(), judge))


def drawn(before: Target, after: Target, slices: int = SLICES) -> Iterator[Failure]:
    engine = ComparingEngine(Pair(before, after), "7")
    for number in range(slices):
        yield from engine.run_slice(number, 1000, ProbeCounter()).failures


# Classified.


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("reference", f"reference+{BUG}", BROKE),
        (f"reference+{BUG}", "reference", FIXED),
        (f"reference+{BUG}", f"reference+{BUG}", STILL_FAILS),
    ],
)
def test_a_failure_is_classified_by_where_it_passes(before: str, after: str, change: str) -> None:
    [found] = compared(make_target(before), make_target(after), *TRIGGER)
    assert (found.change, found.kind) == (change, KIND)


@pytest.mark.slow
def test_equal_targets_have_no_difference(reference: Target) -> None:
    assert list(drawn(make_target("reference"), reference)) == []


@pytest.mark.slow
def test_equal_targets_with_a_bug_have_no_difference_but_fail(buggy: Target) -> None:
    found = list(drawn(make_target(f"reference+{BUG}"), buggy))
    assert {each.change for each in found} == {STILL_FAILS}


def changes(found: Sequence[Failure]) -> list[tuple[str, str]]:
    return [(each.change, each.field) for each in found]


def test_a_different_failure_is_broken_and_names_what_was_excluded(buggy: Target) -> None:
    [found] = compared(Changed(answer=too_large), buggy, *TRIGGER)
    assert (found.change, found.kind) == (BROKE, KIND)
    assert found.why.endswith("; judged without size, wrong before the change")


def test_a_failure_that_both_have_does_not_hide_one_behind_it() -> None:
    def too_large_and_misreads(action: Action, observation: Observation) -> None:
        too_large(action, observation)
        misreads(action, observation)

    newer = Changed(answer=too_large_and_misreads)
    found = compared(Changed(answer=too_large), newer, do.AllocateNode(0), do.Read(0, 0))
    assert changes(found) == [(STILL_FAILS, "size"), (BROKE, "value")]


def test_a_trace_may_show_a_fixed_and_a_broken_field() -> None:
    older, newer = Changed(answer=too_large), Changed(answer=misreads)
    found = compared(older, newer, do.AllocateNode(0), do.Read(0, 0))
    assert changes(found) == [(FIXED, "size"), (BROKE, "value")]


def test_an_action_that_the_old_target_cannot_carry_out_hides_nothing() -> None:
    def breaks(_: Action, observation: Observation) -> None:
        observation.error = "ValueError: broken"

    found = compared(
        Changed(answer=breaks), Changed(answer=misreads), do.AllocateNode(0), do.Read(0, 0)
    )
    assert changes(found) == [(FIXED, "error"), (BROKE, "value")]
    assert found[-1].why.endswith("; before: heap / error / allocate_node / ValueError")


@pytest.mark.parametrize(("read_before", "broken"), [(7, []), (9, [(BROKE, "value")])])
def test_a_known_wrong_field_is_not_broken(read_before: int, broken: list[tuple[str, str]]) -> None:
    def wrong_twice(action: Action, observation: Observation) -> None:
        if observation.value is not None or isinstance(action, do.Read):
            observation.value = read_before

    actions = do.AllocateNode(0), do.ReadNumber(0), do.Read(0, 0)
    found = compared(Changed(answer=wrong_twice), Changed(answer=misreads), *actions)
    assert changes(found) == [(FIXED, "value"), *broken]


def test_a_failure_of_a_second_run_is_fixed_too(reference: Target) -> None:
    numbers = count()

    def never_the_same(_: Action, observation: Observation) -> None:
        if observation.identity is not None:
            observation.identity = next(numbers)

    [found] = compared(
        Changed(answer=never_the_same), reference, do.AllocateNode(0), do.TakeIdentity(0)
    )
    assert (found.change, found.oracle) == (FIXED, "determinism")


def test_a_difference_that_is_allowed_is_observable(reference: Target) -> None:
    [found] = compared(
        reference, Changed(answer=numbered_differently), do.AllocateNode(0), do.TakeIdentity(0)
    )
    assert found.identity == (OBSERVABLE, "identity")
    assert (found.expected, found.got) == ("1", "1001")
    assert found.why == "both keep to their contracts"


def test_a_field_is_reported_once_a_trace(reference: Target) -> None:
    actions = (do.AllocateNode(0), *[do.TakeIdentity(0)] * 3)
    [found] = compared(reference, Changed(answer=numbered_differently), *actions)
    assert found.actions == actions[:2]


@pytest.mark.parametrize(("order", "fields"), [("MR", []), ("RM", ["order"]), ("MMR", ["minors"])])
def test_orders_of_other_events_differ(order: str, fields: list[str], reference: Target) -> None:
    def ordered(_: Action, observation: Observation) -> None:
        if observation.reports:
            observation.order, observation.minors = order, order.count("M")

    actions = (do.EnableSampling(8), do.AllocateNode(0), do.CollectMinor())
    found = compared(reference, Changed(answer=ordered), *actions)
    assert [each.field for each in found] == fields


def collects_more(action: Action, observation: Observation) -> None:
    if isinstance(action, do.CollectFull):
        observation.minors += 1
        observation.order += "M"


def samples_more(action: Action, observation: Observation) -> None:
    if isinstance(action, do.AllocateNode):
        observation.samples += 1


def is_random(contract: Contract) -> Contract:
    rule = attrs.evolve(contract.sampling, distances="random")
    return attrs.evolve(contract, sampling=rule, observes=("samples", "minors", "size"))


@pytest.mark.parametrize(
    ("contract", "answer", "promises", "fields"),
    [
        (lambda contract: contract, collects_more, ("collections",), ["minors"]),
        (lambda contract: contract, collects_more, (), []),
        # A collection may change random distances.
        (is_random, samples_more, ("collections",), ["samples"]),
        (is_random, samples_more, (), []),
    ],
)
def test_collections_and_random_samples_are_compared_if_both_contracts_promise_collections(
    contract: Callable[[Contract], Contract],
    answer: Callable[[Action, Observation], None],
    promises: tuple[Promise, ...],
    fields: list[str],
) -> None:
    def promising(given: Contract) -> Contract:
        return attrs.evolve(contract(given), promises=promises)

    actions = do.EnableSampling(8), do.AllocateNode(0), do.CollectFull()
    found = compared(Changed(promising), Changed(promising, answer), *actions)
    assert [each.field for each in found] == fields


def test_a_difference_of_the_contracts_is_the_reason(reference: Target) -> None:
    other = make_target("reference-geometric")
    found = next(iter(compared(reference, other, *TRIGGER)))
    assert found.why == (
        'the trace was made under a contract with distances "period"; here it is "geometric"'
    )


def test_a_field_that_only_one_promises_is_not_compared(reference: Target) -> None:
    def without_identities(contract: Contract) -> Contract:
        observes = tuple(each for each in contract.observes if each != "identity")
        return attrs.evolve(contract, observes=observes)

    silent = Changed(without_identities, numbered_differently)
    assert compared(reference, silent, do.AllocateNode(0), do.TakeIdentity(0)) == []


def test_the_old_target_gets_no_action_that_it_does_not_carry_out() -> None:
    older = make_target("reference", TargetOptions(without=("take_identity",)))
    newer = Changed(answer=numbered_differently)
    assert compared(older, newer, do.AllocateNode(0), do.TakeIdentity(0), do.CollectMinor()) == []


# Drawn.


@pytest.mark.slow
@pytest.mark.parametrize("change", [BROKE, FIXED])
def test_drawn_traces_find_what_a_change_did(change: str, reference: Target, buggy: Target) -> None:
    targets = (reference, buggy) if change == BROKE else (buggy, reference)
    assert {each.change for each in drawn(*targets)} == {change}


@pytest.mark.slow
def test_a_setting_is_left_out_if_its_value_is_not_allowed(reference: Target) -> None:
    def with_one_setting(contract: Contract) -> Contract:
        [nursery] = [each for each in contract.settings if each.name == "nursery_bytes"]
        least = attrs.evolve(nursery, range=attrs.evolve(nursery.range, minimum=nursery.default))
        return attrs.evolve(contract, settings=(least,))

    older = Changed(with_one_setting, numbered_differently)
    configurations = [each.configuration for each in drawn(older, reference)]
    assert {name for each in configurations for name in each} == {"nursery_bytes"}
    assert {} in configurations


# Reduced.


def reduced(before: Target, after: Target, *actions: Action) -> Failure:
    [found] = compared(before, after, *actions)
    return reduce_failure(Pair(before, after), found)


PADDED = (do.AllocateString(3), do.AllocateNode(1), do.CollectMinor(), *TRIGGER)


@pytest.mark.parametrize("change", [BROKE, FIXED])
def test_a_reduced_difference_still_passes(change: str, reference: Target, buggy: Target) -> None:
    targets = (reference, buggy) if change == BROKE else (buggy, reference)
    found = reduced(*targets, *PADDED)
    assert (found.change, found.actions) == (change, TRIGGER)
    assert run_actions(reference, found.configuration, found.actions) is None


def test_an_observable_difference_is_reduced(reference: Target) -> None:
    newer = Changed(answer=numbered_differently)
    actions = (do.AllocateNode(3), do.CollectMinor(), do.AllocateNode(4), do.TakeIdentity(1))
    assert reduced(reference, newer, *actions).actions == (do.AllocateNode(0), do.TakeIdentity(0))


def test_a_new_defect_behind_an_old_one_of_its_field_is_reduced_without_it() -> None:
    def too_large_node(action: Action, observation: Observation) -> None:
        if isinstance(action, do.AllocateNode):
            too_large(action, observation)

    older, newer = Changed(answer=too_large_node), Changed(answer=too_large)
    actions = do.AllocateNode(0), do.CollectMinor(), do.AllocateString(3)
    still, found = compared(older, newer, *actions)
    assert (still.change, found.change, found.is_late) == (STILL_FAILS, BROKE, True)
    assert reduce_failure(Pair(older, newer), found).actions == (do.AllocateString(0),)


def test_a_reduction_does_not_use_a_second_bug(buggy: Target) -> None:
    both = make_target(f"reference+{BUG}+{OTHER_BUG}")
    found = next(each for each in drawn(buggy, both) if each.change == BROKE)
    small = reduce_failure(Pair(buggy, both), found)
    assert small.identity == found.identity
    excluded = small.excluded
    assert run_actions(buggy, small.configuration, small.actions, excluded=excluded) is None
    failure = run_actions(both, small.configuration, small.actions, excluded=excluded)
    assert failure is not None
    assert failure.kind == found.kind


# Contracts and counts.


def changed_kinds(contract: Contract) -> Contract:
    kinds = {**contract.layout.kinds, "node": KindLayout(1, 40)}
    return attrs.evolve(contract, layout=attrs.evolve(contract.layout, kinds=kinds))


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda contract: contract, []),
        (lambda contract: attrs.evolve(contract, nursery_bytes=512), ["nursery_bytes 256 → 512"]),
        (changed_kinds, ["layout.kinds.node.fixed_bytes 32 → 40"]),
        (
            lambda contract: attrs.evolve(contract, observes=("value", "minors", "at")),
            ["observes.alive gone", "observes.identity gone", "observes.at new"],
        ),
        (lambda contract: attrs.evolve(contract, settings=()), ["settings.nursery_bytes gone"]),
        (
            lambda contract: attrs.evolve(contract, prebuilt=(Prebuilt("array", 4),)),
            ['prebuilt [{"kind": "node", "length": 0}] → [{"kind": "array", "length": 4}]'],
        ),
    ],
)
def test_each_difference_of_contracts_is_a_line(
    contract: Contract, change: Callable[[Contract], Contract], lines: Sequence[str]
) -> None:
    contract = attrs.evolve(contract, prebuilt=(Prebuilt("node"),))
    assert list(contract_changes(contract, change(contract))) == lines


def test_a_difference_is_counted_by_kind_and_action(reference: Target, buggy: Target) -> None:
    [broke] = compared(reference, buggy, *TRIGGER)
    assert counted_as(broke) == "broke / sampling / samples / less / allocate_node"
    newer = Changed(answer=numbered_differently)
    [observable] = compared(reference, newer, do.AllocateNode(0), do.TakeIdentity(0))
    assert counted_as(observable) == "observable / identity / take_identity"


def test_a_difference_is_counted_by_what_more_runs_show(reference: Target, buggy: Target) -> None:
    [broke] = compared(reference, buggy, *TRIGGER)
    counts = Counter(
        {counted_as(broke): 2, "still-fails / sampling / samples / less / allocate_node": 1}
    )
    by_verdict = counted_by_verdict(counts, {name_of_verdict(broke): STILL_FAILS})
    assert by_verdict == {"still-fails / sampling / samples / less / allocate_node": 3}
