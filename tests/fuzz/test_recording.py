"""Recordings: the answers of a target, compared with its new ones or with those of another."""

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fuzz.engines.random import RandomEngine
from fuzz.failure import Failure
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Range, SamplingRule
from fuzz.protocol.lines import to_line, unstructured
from fuzz.protocol.observation import Report
from fuzz.protocol.target import Target, name_of
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.reached.probes import ProbeCounter
from fuzz.replay import record, replay
from fuzz.targets import TargetOptions, make_target
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT = range(3)
SERVED = (sys.executable, "-m", "fuzz.targets", "reference")
ACTIONS: tuple[Action, ...] = (
    *(
        *(do.EnableSampling(24), do.AllocateNode(7), do.AllocateArray(2), do.TakeIdentity(0)),
        do.CollectMinor(),
    ),
    do.AllocateString(100),
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


def with_header(recording: Trace, **changes: Any) -> Trace:
    return attrs.evolve(recording, header=attrs.evolve(recording.header, **changes))


def with_contract(recording: Trace, **changes: Any) -> Trace:
    contract = recording.header.contract
    assert contract is not None
    return with_header(recording, contract=attrs.evolve(contract, **changes))


def failure_of(recording: Trace, target: Target) -> Failure | None:
    return replay(target, recording, "a recording")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"reports": [Report([99], 1, 2, 0)]},
            r"reported type 24 outside survived, 1 byte and 2 arena bytes, scanning",
        ),
        ({"order": f"M{'s' * 10_000}R"}, r"Ms{400,500}…s{400,500}R"),
    ],
    ids=["reports", "a long order"],
)
def test_a_different_answer_is_described(
    recording: Trace, reference: Target, changes: dict[str, Any], expected: str
) -> None:
    failure = failure_of(with_answer(recording, 4, **changes), reference)
    assert failure is not None
    assert [failure.field] == [*changes]
    assert re.fullmatch(expected, failure.expected)


def test_a_recording_reads_back_the_same(recording: Trace) -> None:
    assert traces.loads(traces.dumps(recording), "a file") == recording


def test_a_recording_passes_under_its_contract(recording: Trace, reference: Target) -> None:
    assert recording.header.contract == reference.start({})
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
    [
        *((1, {"at": 8}), (3, {"identity": 99}), (4, {"minors": 2}), (5, {"state": 2})),
        (4, {"graph": None}),
    ],
)
def test_other_fields_are_not_compared_on_another_target(
    recording: Trace, reference: Target, number: int, changes: dict[str, object]
) -> None:
    changed = with_header(with_answer(recording, number, **changes), target="another")
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
def test_fields_that_the_contract_determines_are_compared_on_another_target(
    recording: Trace, reference: Target, number: int, changes: dict[str, object]
) -> None:
    changed = with_header(with_answer(recording, number, **changes), target="another")
    failure = failure_of(changed, reference)
    assert failure is not None
    assert (failure.oracle, failure.field) == ("recording", *changes)


def test_another_contract_makes_another_target(recording: Trace, reference: Target) -> None:
    changed = with_answer(with_contract(recording, nursery_bytes=512), 1, at=8)
    assert failure_of(changed, reference) is None


def test_a_field_that_one_target_lacks_is_not_compared(recording: Trace, reference: Target) -> None:
    observes = tuple(each for each in reference.start({}).observes if each != "outside")
    changed = with_answer(with_contract(recording, observes=observes), 1, outside=None)
    assert failure_of(changed, reference) is None


def test_samples_beside_a_callback_are_not_compared_on_another_target(reference: Target) -> None:
    actions = (do.SetCallback(0), *ACTIONS, do.CollectProgress())
    recorded, _ = record(reference, Trace(Header(VERSION, "reference"), actions), "a trace")
    changed = with_header(with_answer(recorded, 3, samples=0), target="another")
    assert failure_of(changed, reference) is None


def test_another_layout_is_bad_input(recording: Trace, reference: Target) -> None:
    layout = attrs.evolve(reference.start({}).layout, large_object_bytes=72)
    with pytest.raises(BadInputError, match="a contract with large_object_bytes 72; here it is 64"):
        failure_of(with_contract(recording, layout=layout), reference)


@pytest.mark.parametrize("enables", [True, False])
def test_another_sampling_rule_matters_only_while_enabled(reference: Target, enables: bool) -> None:
    actions = ACTIONS if enables else ACTIONS[1:]
    contract = attrs.evolve(reference.start({}), sampling=SamplingRule(Range(8, 64), crosses="at"))
    trace = Trace(Header(VERSION, "reference", contract=contract), actions)
    if enables:
        with pytest.raises(BadInputError, match='with crosses "at"; here it is "beyond"'):
            failure_of(trace, reference)
    else:
        assert failure_of(trace, reference) is None


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('"word_bytes": 8', '"word_bytes": 0', r"r\.jsonl:1: .*word_bytes is 0"),
        ('"size": 32', '"size": "32"', r"r\.jsonl:5: "),
    ],
)
def test_an_impossible_contract_or_answer_is_bad_input(
    recording: Trace, before: str, after: str, problem: str
) -> None:
    with pytest.raises(BadInputError, match=problem):
        traces.loads(traces.dumps(recording).replace(before, after, 1), "r.jsonl")


def test_a_recording_whose_last_answer_is_missing_is_bad_input(recording: Trace) -> None:
    lines = traces.dumps(recording).splitlines(keepends=True)
    with pytest.raises(BadInputError, match=r"r\.jsonl:12: the last action has no observation"):
        traces.loads("".join(lines[:-1]), "r.jsonl")


def test_a_recording_of_a_failure_ends_with_it() -> None:
    target = make_target("reference+one-sample-per-object")
    actions = (do.EnableSampling(8), do.AllocateNode(0), do.CollectMinor())
    recorded, failure = record(target, Trace(Header(VERSION, name_of(target)), actions), "a trace")
    assert failure is not None
    assert recorded.actions == actions[:2]
    assert recorded.recorded is not None
    assert recorded.recorded[1].samples == 1


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    traces.write_to(Trace(Header(VERSION, "reference"), ACTIONS), path)
    return path


def test_record_and_replay_on_the_command_line(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "recording.jsonl"
    assert run_command_line(["record", str(trace), "-o", str(out)]) == CLEAN
    assert run_command_line(["replay", str(out)]) == CLEAN
    out.write_text(out.read_text().replace('"at": 32', '"at": 40'))
    assert run_command_line(["replay", str(out)]) == MISMATCH


def test_a_recording_cannot_replace_its_trace(trace: Path) -> None:
    assert run_command_line(["record", str(trace), "-o", str(trace)]) == BAD_INPUT


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_pipe_changes_no_answer(seed: int, changed_reference: Callable[[], Any]) -> None:
    """In traces that the random engine draws, with pins, pressure and callbacks."""
    target = changed_reference()
    engine = RandomEngine(target, str(seed))
    for number in range(1, 21, 2):
        engine.run_slice(number, 200, ProbeCounter())
    lines = [to_line(unstructured(each)) for each in target.observations]
    served = make_target("process", TargetOptions(SERVED))
    answers = []
    for configuration, actions in zip(target.configurations, target.traces, strict=True):
        served.start(configuration)
        answers += [to_line(unstructured(served.perform(action))) for action in actions]
    assert answers == lines
    assert len(answers) > 200


@pytest.mark.slow
def test_recordings_behind_a_pipe_and_in_process_are_equal(trace: Path, tmp_path: Path) -> None:
    files = []
    for options in (["--target", "reference"], ["--command", shlex.join(SERVED)]):
        out = tmp_path / f"{options[0]}.jsonl"
        assert run_command_line(["record", str(trace), "-o", str(out), *options]) == CLEAN
        header, *lines = out.read_text().splitlines()
        files.append((json.loads(header)["contract"], lines))
    assert files[0] == files[1]


def test_an_illegal_action_of_a_recording_is_named(recording: Trace, reference: Target) -> None:
    lines = traces.dumps(recording).splitlines(keepends=True)
    illegal = '{"do": "free", "root": 99}\n'
    trace = traces.loads("".join([*lines[:5], illegal, "{}\n"]), "r.jsonl")
    with pytest.raises(BadInputError, match=r"r\.jsonl:6: free: root is 99"):
        replay(reference, trace, "r.jsonl")
