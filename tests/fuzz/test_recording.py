"""Recordings: what a target said, compared with what it says now, or with what another says."""

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    CollectMinor,
    CollectProgress,
    EnableSampling,
    SetCallback,
    TakeIdentity,
)
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.lines import to_line, unstructured
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.replay import record, replay
from fuzz.run import Failure
from fuzz.targets import TargetOptions, make_target
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT = range(3)
SERVED = (sys.executable, "-m", "fuzz.targets", "reference")
ACTIONS: tuple[Action, ...] = (
    *(EnableSampling(24), AllocateNode(7), AllocateArray(2), TakeIdentity(0), CollectMinor()),
    AllocateString(100),
)


@pytest.fixture
def recording(reference: Target) -> Trace:
    recorded, failure = record(reference, Trace(Header(VERSION, "reference"), ACTIONS), "a trace")
    assert failure is None
    return recorded


def with_answer(recording: Trace, number: int, **changes: Any) -> Trace:
    """The recording with one answer changed."""
    assert recording.recorded is not None
    answers = list(recording.recorded)
    answers[number] = attrs.evolve(answers[number], **changes)
    return attrs.evolve(recording, recorded=tuple(answers))


def test_reports_that_differ_are_told(recording: Trace, reference: Target) -> None:
    changed = with_answer(recording, 4, reports=[Report([99], 1, 2, 0)])
    failure = replay(reference, changed, "a trace")
    assert failure is not None
    assert failure.field == "reports"
    assert failure.expected == (
        "reported type 24 outside survived, 1 byte and 2 arena bytes, scanning"
    )


def test_of_a_long_answer_that_differs_both_ends_are_told(
    recording: Trace, reference: Target
) -> None:
    changed = with_answer(recording, 4, order=f"M{'s' * 10_000}R")
    failure = replay(reference, changed, "a trace")
    assert failure is not None
    assert re.fullmatch(r"Ms{400,500}…s{400,500}R", failure.expected)


def made_by(recording: Trace, name: str) -> Trace:
    """As if a target of that name had been recorded."""
    return attrs.evolve(recording, header=attrs.evolve(recording.header, target=name))


def failure_of(recording: Trace, target: Target) -> Failure | None:
    return replay(target, recording, "a recording")


def test_a_recording_reads_back_the_same(recording: Trace) -> None:
    assert traces.loads(traces.dumps(recording), "a file") == recording


def test_a_recording_says_under_which_contract_it_was_made(
    recording: Trace, reference: Target
) -> None:
    assert recording.header.contract == reference.start({})


def test_a_recording_passes_on_its_target(recording: Trace, reference: Target) -> None:
    assert failure_of(recording, reference) is None


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (1, {"at": 8}),
        (1, {"size": 40}),
        (2, {"samples": 0}),
        (3, {"identity": 99}),
        (4, {"graph": [[1, 7], [3, 2], [1, 0], [3, 3]]}),
        (5, {"state": 2}),
    ],
)
def test_every_field_is_compared_on_the_target_that_was_recorded(
    recording: Trace, reference: Target, number: int, changes: dict[str, object]
) -> None:
    failure = failure_of(with_answer(recording, number, **changes), reference)
    assert failure is not None
    assert (failure.oracle, failure.field) == ("recording", *changes)
    assert len(failure.actions) == number + 1


@pytest.mark.parametrize(
    ("number", "changes"),
    [(1, {"at": 8}), (3, {"identity": 99}), (4, {"minors": 2}), (5, {"state": 2})],
)
def test_what_the_contract_leaves_open_is_not_compared_on_another_target(
    recording: Trace, reference: Target, number: int, changes: dict[str, object]
) -> None:
    changed = made_by(with_answer(recording, number, **changes), "another")
    assert failure_of(changed, reference) is None


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (1, {"size": 40}),
        (2, {"samples": 0}),
        (4, {"graph": [[1, 7], [3, 2], [1, 0], [3, 3]]}),
        (5, {"outside": False}),
    ],
)
def test_what_the_contract_determines_is_compared_on_another_target(
    recording: Trace, reference: Target, number: int, changes: dict[str, object]
) -> None:
    failure = failure_of(made_by(with_answer(recording, number, **changes), "another"), reference)
    assert failure is not None
    assert (failure.oracle, failure.field) == ("recording", *changes)


def test_under_another_contract_the_same_name_is_another_target(
    recording: Trace, reference: Target
) -> None:
    contract = recording.header.contract
    assert contract is not None
    header = attrs.evolve(recording.header, contract=attrs.evolve(contract, nursery_bytes=512))
    changed = with_answer(attrs.evolve(recording, header=header), 1, at=8)
    assert failure_of(changed, reference) is None


def test_what_only_one_of_two_targets_observes_is_not_compared(
    recording: Trace, reference: Target
) -> None:
    contract = recording.header.contract
    assert contract is not None
    observes = tuple(field for field in contract.observes if field != "outside")
    header = attrs.evolve(recording.header, contract=attrs.evolve(contract, observes=observes))
    changed = with_answer(attrs.evolve(recording, header=header), 1, outside=None)
    assert failure_of(changed, reference) is None


def test_samples_beside_a_callback_are_not_compared_on_another_target(reference: Target) -> None:
    actions = (SetCallback(0), *ACTIONS, CollectProgress())
    recorded, _ = record(reference, Trace(Header(VERSION, "reference"), actions), "a trace")
    assert failure_of(made_by(with_answer(recorded, 3, samples=0), "another"), reference) is None


def test_a_heap_that_only_one_of_them_shows_is_not_compared(
    recording: Trace, reference: Target
) -> None:
    assert failure_of(made_by(with_answer(recording, 4, graph=None), "another"), reference) is None


def test_another_layout_is_bad_input(recording: Trace, reference: Target) -> None:
    contract = recording.header.contract
    assert contract is not None
    layout = attrs.evolve(contract.layout, large_object_bytes=72)
    changed = attrs.evolve(
        recording,
        header=attrs.evolve(recording.header, contract=attrs.evolve(contract, layout=layout)),
    )
    with pytest.raises(BadInputError, match="a contract with large_object_bytes 72; here it is 64"):
        failure_of(changed, reference)


@pytest.mark.parametrize("enables", [True, False])
def test_another_sampling_rule_matters_only_where_sampling_is_enabled(
    reference: Target, enables: bool
) -> None:
    actions = ACTIONS if enables else ACTIONS[1:]
    contract = attrs.evolve(reference.start({}), sampling=SamplingRule(Range(8, 64), crosses="at"))
    trace = Trace(Header(VERSION, "reference", contract=contract), actions)
    if enables:
        with pytest.raises(BadInputError, match='with crosses "at"; here it is "beyond"'):
            failure_of(trace, reference)
    else:
        assert failure_of(trace, reference) is None


def test_a_contract_that_cannot_be_is_bad_input(recording: Trace) -> None:
    text = traces.dumps(recording).replace('"word_bytes": 8', '"word_bytes": 0', 1)
    with pytest.raises(BadInputError, match=r"r\.jsonl:1: .*word_bytes is 0"):
        traces.loads(text, "r.jsonl")


def test_a_recording_whose_last_answer_is_missing_is_bad_input(recording: Trace) -> None:
    lines = traces.dumps(recording).splitlines(keepends=True)
    with pytest.raises(BadInputError, match=r"r\.jsonl:12: the last action has no observation"):
        traces.loads("".join(lines[:-1]), "r.jsonl")


def test_an_answer_that_cannot_be_is_bad_input(recording: Trace) -> None:
    text = traces.dumps(recording).replace('"size": 32', '"size": "32"', 1)
    with pytest.raises(BadInputError, match=r"r\.jsonl:5: "):
        traces.loads(text, "r.jsonl")


def test_a_recording_of_a_failure_ends_with_it() -> None:
    target = make_target("reference+one-sample-per-object")
    actions = (EnableSampling(8), AllocateNode(0), CollectMinor())
    recorded, failure = record(target, Trace(Header(VERSION, target.name), actions), "a trace")
    assert failure is not None
    assert recorded.actions == actions[:2]
    assert recorded.recorded is not None
    assert recorded.recorded[1].samples == 1


def test_record_and_replay_on_the_command_line(tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "recording.jsonl"
    traces.write_to(Trace(Header(VERSION, "reference"), ACTIONS), trace)
    assert run_command_line(["record", str(trace), "-o", str(out)]) == CLEAN
    assert run_command_line(["replay", str(out)]) == CLEAN
    out.write_text(out.read_text().replace('"at": 32', '"at": 40'))
    assert run_command_line(["replay", str(out)]) == MISMATCH


def test_a_recording_cannot_replace_its_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    traces.write_to(Trace(Header(VERSION, "reference"), ACTIONS), trace)
    assert run_command_line(["record", str(trace), "-o", str(trace)]) == BAD_INPUT


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_reference_behind_a_pipe_answers_byte_for_byte_the_same(seed: int) -> None:
    served = make_target("process", TargetOptions(SERVED))
    answers = []
    for target in (served, make_target("reference")):
        said: list[str] = []
        answers.append(said)
        for trace in drawn(seed):
            target.start(trace.header.config)
            answered = map(target.perform, trace.actions)
            said.extend(to_line(unstructured(answer)) for answer in answered)
    assert answers[0] == answers[1]
    assert len(answers[0]) > 200


def drawn(seed: int) -> list[Trace]:
    """Some traces as the random engine draws them, pins, pressure, callbacks and all."""
    target = Listening()
    engine = RandomEngine(target, str(seed))
    for number in range(1, 21, 2):
        engine.run_slice(number, 200, ProbeCounter())
    return [Trace(Header(VERSION, "", config), tuple(actions)) for config, actions in target.heard]


class Listening:
    """The reference, and what was asked of it."""

    name = "reference"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self.heard: list[tuple[dict[str, int], list[Action]]] = []

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.heard.append((dict(configuration), []))
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self.heard[-1][1].append(action)
        return self._target.perform(action)


def test_recordings_behind_a_pipe_and_in_this_process_are_the_same_file(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    traces.write_to(Trace(Header(VERSION, "reference"), ACTIONS), trace)
    files = {}
    for name, options in {
        "reference": ["--target", "reference"],
        "process": ["--command", shlex.join(SERVED)],
    }.items():
        out = tmp_path / f"{name}.jsonl"
        assert run_command_line(["record", str(trace), "-o", str(out), *options]) == CLEAN
        header, *lines = out.read_text().splitlines()
        files[name] = json.loads(header)["contract"], lines
    assert files["reference"] == files["process"]


def test_the_line_of_an_illegal_action_of_a_recording_is_named(
    recording: Trace, reference: Target
) -> None:
    lines = traces.dumps(recording).splitlines(keepends=True)
    illegal = '{"do": "free", "root": 99}\n'
    trace = traces.loads("".join([*lines[:5], illegal, "{}\n"]), "r.jsonl")
    with pytest.raises(BadInputError, match=r"r\.jsonl:6: free: root is 99"):
        replay(reference, trace, "r.jsonl")
