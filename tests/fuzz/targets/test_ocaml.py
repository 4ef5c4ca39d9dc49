"""The target ocaml: Memprof of a stock OCaml 4.13, each of its samples foretold.

Without it everything is skipped that needs it: `apt install ocaml`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.oracles.counting.distances import Ocaml
from fuzz.problems import BadInputError
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    Read,
    ReadNumber,
    SetPeriod,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import Bytes, Streams
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, full
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.ocaml import ocaml_command
from fuzz.targets.ocaml.ocaml_command import HOW_TO_INSTALL, SOURCES, find_compiler, made_program
from fuzz.targets.ocaml.ocaml_driver import OcamlAnswer, OcamlMutator, OcamlTarget
from fuzz.terminal.cli import run_command_line

BAD_INPUT = 2
WORD = 8
ON, OFF = EnableSampling(100 * WORD), DisableSampling()
EVERY = EnableSampling(WORD)


@pytest.fixture(scope="module")
def program() -> tuple[str, str]:
    try:
        find_compiler(None)
    except BadInputError as problem:
        pytest.skip(str(problem))
    return made_program(None)


@pytest.fixture
def target(program: tuple[str, str]) -> Iterator[OcamlTarget]:
    target = OcamlTarget(*program)
    yield target
    target.close()


# The program.


def test_where_there_is_no_ocaml_a_run_ends_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ocaml_command, "COMPILER", "no-such-compiler")
    assert run_command_line(["run", "--target", "ocaml"]) == BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert "the target ocaml needs OCaml, and there is no no-such-compiler" in line
    assert HOW_TO_INSTALL in line


def compiler(folder: Path, version: str, exit_code: int) -> Path:
    path = folder / "compiler"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo {version} && exit\necho no; exit {exit_code}\n'
    )
    path.chmod(0o755)
    return path


def test_another_version_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"compiler is OCaml 5\.3\.0: apt install"):
        made_program(compiler(tmp_path, "5.3.0", 0))


def test_what_the_compiler_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadInputError, match="compiler fails: no"):
        made_program(compiler(tmp_path, "4.13.1", 2))


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="compiler is no program"):
        made_program(tmp_path / "compiler")


def test_a_replay_is_told_which_compiler_it_was() -> None:
    assert TargetOptions(ocaml=Path("/ocamlopt")).words == ["--ocaml", "/ocamlopt"]


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_the_mutator_compiles_without_a_warning(tmp_path: Path) -> None:
    copies = [tmp_path / each.name for each in SOURCES]
    for source, copy in zip(SOURCES, copies, strict=True):
        copy.write_bytes(source.read_bytes())
    warnings = ["-w", "+a-4-9-40..42-70", "-warn-error", "+a", "-ccopt", "-Wall -Werror"]
    words = ["ocamlopt", *warnings, "unix.cmxa", *(each.name for each in copies), "-o", "mutator"]
    subprocess.run(words, check=True, cwd=tmp_path)


# One trace.


def said_of(target: OcamlTarget, actions: Sequence[Action]) -> list[Observation]:
    said = [target.perform(action) for action in actions]
    assert [each.error for each in said] == [None] * len(said)
    return said


def test_a_block_outside_is_sampled_where_the_first_distance_ends(target: OcamlTarget) -> None:
    target.start({"sampler_seed": 3})
    words = Ocaml(3).draw(1000 * WORD) // WORD
    said = said_of(target, [EnableSampling(1000 * WORD), AllocateString(words - 4)])
    assert words > 300
    assert [each.samples for each in said] == [0, 0]
    assert said_of(target, [AllocateString(300)])[0].samples >= 1


@pytest.mark.parametrize(
    ("allocation", "words"),
    [(AllocateNode(1), 6), (AllocateString(9), 12), (AllocateArray(9), 11)],
    ids=["node", "string", "array"],
)
def test_where_each_word_is_sampled_a_block_is_as_often_as_it_has_words(
    allocation: Action, words: int, target: OcamlTarget
) -> None:
    target.start({})
    _, said = said_of(target, [EVERY, allocation])
    assert (said.samples, said.size) == (words, words * WORD)


def test_each_trace_begins_with_the_same_numbers(target: OcamlTarget) -> None:
    actions: list[Action] = [ON, *[AllocateString(90), Free(0)] * 9]

    def play() -> list[int]:
        target.start({"sampler_seed": 5})
        return [each.samples for each in said_of(target, actions)]

    first = play()
    target.start({})
    said_of(target, [EVERY, AllocateString(300)])
    assert play() == first
    assert sum(first) >= 3


def test_whatever_is_asked_is_answered(target: OcamlTarget) -> None:
    target.start({})
    actions = [SetPeriod(8), AllocateNode(0, thread=1), Free(7), Read(0, 0), AllocateString(2)]
    errors = [str(target.perform(action).error) for action in actions]
    assert "carries out no set_period" in errors[0]
    assert "no allocate_node in thread 1" in errors[1]
    assert errors[2:4] == ["ValueError: OCaml cannot do that"] * 2
    assert errors[4] == "None"


EACH_ACTION: list[Action] = [
    *(OFF, ON, EVERY, AllocateArray(4), AllocateNode(-(2**63)), AllocateString(3)),
    *(AllocateArray(4), Write(0, 1, 1), Write(1, 0, 2), Write(1, 1, 0), Read(0, 1), Read(0, 0)),
    *(ReadNumber(1), WriteNumber(1, 2**63 - 1), ReadNumber(1), ReadNumber(2), ReadNumber(0)),
    *(CopyArray(0, 3, 0, 0, 4), CollectMinor(), CollectMinor(), CollectFull(), CheckHeap()),
    *(Write(0, 1, None), Read(0, 1), Free(1), OFF, AllocateNode(9), CollectFull(), CheckHeap()),
]


def test_each_action_is_found_right(target: OcamlTarget) -> None:
    assert run_actions(full(target), {}, EACH_ACTION) is None


def test_an_illegal_configuration_is_bad_input(target: OcamlTarget) -> None:
    with pytest.raises(BadInputError, match="minor_heap_words is 8"):
        target.start({"minor_heap_words": 8})


def test_the_end_of_ocaml_is_an_error(target: OcamlTarget) -> None:
    target.start({})
    assert target.mutator is not None
    target.mutator.process.kill()
    assert (
        target.perform(CollectFull()).error
        == "EOFError: the program that is asked has ended with exit code -9"
    )


# What is not told.


def test_nothing_is_asked_of_memprof_but_to_start_and_to_stop() -> None:
    for_c, for_ocaml = (source.read_text("utf-8") for source in SOURCES)
    assert "memprof_" not in for_c
    used = {each.split()[0] for each in for_ocaml.split("Memprof.")[1:]}
    assert used == {"allocation)", "null_tracker", "start", "stop"}


def test_what_is_answered_depends_on_no_distance_but_by_samples(
    target: OcamlTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[OcamlAnswer] = []
    ask = OcamlMutator.ask

    def recorded(mutator: OcamlMutator, what: int, *numbers: int) -> OcamlAnswer:
        answers.append(ask(mutator, what, *numbers))
        return answers[-1]

    monkeypatch.setattr(OcamlMutator, "ask", recorded)
    told = []
    for seed in (1, 2):
        target.start({"sampler_seed": seed, "minor_heap_words": 2**18})
        answers.clear()
        said_of(target, [*EACH_ACTION, ON, *[AllocateString(50), AllocateNode(1)] * 20])
        told.append(([(each.values, each.collections) for each in answers], [*answers]))
    assert told[0][0] == told[1][0]
    assert told[0][1] != told[1][1]


# Sessions.


def dense(seed: int, count: int, period_words: int) -> list[Action]:
    """Allocations, hardly anything else; so that many are sampled."""
    random = Random(seed)
    actions: list[Action] = [EnableSampling(period_words * WORD)]
    roots = 0
    while len(actions) < count:
        if roots == 12 or (roots and random.random() < 0.3):
            actions.append(Free(random.randrange(roots)))
            roots -= 1
        elif random.random() < 0.01:
            actions.append(random.choice([CollectMinor(), CollectMinor(), CollectFull()]))
        elif random.random() < 0.003:
            actions += [OFF, AllocateString(400), EnableSampling(period_words * WORD)]
            roots += 1
        else:
            length = min(int(random.expovariate(1 / 100)), 4000)
            kinds: list[Action] = [
                *(AllocateNode(roots), AllocateString(length), AllocateArray(length))
            ]
            actions.append(random.choice(kinds))
            roots += 1
    return actions


class Counted(FullTarget):
    """The target, whose samples are counted, under a contract that may have a mistake."""

    name = "ocaml"

    def __init__(self, target: OcamlTarget, **mistake: Any) -> None:
        self._target = target
        self._mistake = mistake
        self.actions = self.samples = self.several = self.collections = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = self._target.start(configuration)
        return attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, **self._mistake))

    def perform(self, action: Action) -> Observation:
        said = self._target.perform(action)
        self.actions += 1
        self.samples += said.samples
        self.several += said.samples > 1
        self.collections += said.minors
        return said


def test_a_short_session_finds_nothing(target: OcamlTarget) -> None:
    counted = Counted(target)
    assert run_actions(full(counted), {"sampler_seed": 4}, dense(1, 300, 50)) is None
    assert counted.actions == 300
    assert counted.samples >= 50


@pytest.mark.slow
def test_fifty_thousand_actions_are_foretold(target: OcamlTarget) -> None:
    counted = Counted(target)
    for seed, (words, period_words) in enumerate(
        [(4096, 100), (4096, 10), (4096, 1000), (2**15, 300), (2**18, 100)]
    ):
        settings = {"minor_heap_words": words, "sampler_seed": seed}
        assert run_actions(full(counted), settings, dense(seed, 9500, period_words)) is None
    for done in slices_of(RandomEngine(full(make_target("ocaml")), "1"), 2500, ProbeCounter()):
        assert done.failures == []
    assert counted.actions >= 5 * 9500
    assert counted.samples >= 20_000
    assert counted.several >= 2_000
    assert counted.collections >= 200


# A mistake in the contract.

MISTAKES: dict[str, dict[str, object]] = {
    "formula": {"distances": "geometric"},
    "crossing": {"crosses": "beyond"},
    "one stream": {"counting": Bytes()},
    "nothing postponed": {"counting": Streams((), ("collections", "callbacks"))},
    "kept by collections": {"counting": Streams(("string", "array"), ("callbacks",))},
    "kept by callbacks": {"counting": Streams(("string", "array"), ("collections",))},
    "once": {"samples_per_allocation": "one"},
    "seed": {"seeds": (9,)},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_contract_is_found(mistake: str, target: OcamlTarget) -> None:
    counted = Counted(target, **MISTAKES[mistake])
    found = run_actions(full(counted), {}, dense(2, 1000, 20))
    assert found is not None
    assert found.oracle == "sampling"
