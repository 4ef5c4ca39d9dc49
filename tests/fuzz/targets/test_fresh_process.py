"""A program that keeps something between traces: each trace may have a process of its own."""

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateString, CollectFull
from fuzz.protocol.target import full
from fuzz.protocol.trace import EarlierTrace
from fuzz.run import Failure, run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process import earlier
from fuzz.terminal.cli import run_command_line

ADAPTER = Path(__file__).with_name("forgetful_adapter.py")
CLEAN, MISMATCH, BAD_INPUT = range(3)
STRING, FULL = AllocateString(0), CollectFull()


def command_of(mode: str) -> tuple[str, ...]:
    return sys.executable, "-E", "-S", str(ADAPTER), mode


def failure_of_the_second_trace(mode: str, *, fresh_process: bool) -> Failure | None:
    options = TargetOptions(command_of(mode), timeout_seconds=600, fresh_process=fresh_process)
    target = make_target("process", options)
    assert run_actions(target, {}, [STRING]) is None
    return run_actions(target, {}, [STRING])


def test_without_a_process_of_its_own_a_trace_inherits() -> None:
    assert failure_of_the_second_trace("stale", fresh_process=False) is not None


def test_each_trace_may_have_a_process_of_its_own() -> None:
    assert failure_of_the_second_trace("stale", fresh_process=True) is None


def test_a_contract_may_ask_for_it() -> None:
    assert failure_of_the_second_trace("asks", fresh_process=False) is None


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("extra", 'garbage after the last answer: "{}"'),
        ("code", "crash exit code 7 at end: it ended without a word"),
        pytest.param(
            "hang", "crash at end: it closed its output, and did not end", marks=pytest.mark.slow
        ),
    ],
)
def test_a_process_that_ends_otherwise_than_in_peace_is_a_failure(mode: str, problem: str) -> None:
    options = TargetOptions(command_of(mode), timeout_seconds=600, fresh_process=True)
    failure = run_actions(make_target("process", options), {}, [STRING, FULL])
    assert failure is not None
    assert (failure.actions, failure.got) == ((STRING, FULL), problem)


def test_what_is_no_program_has_no_process() -> None:
    with pytest.raises(BadInputError, match="--fresh-process: reference is not a program"):
        make_target("reference", TargetOptions(fresh_process=True))


def test_the_option_is_part_of_what_is_to_be_typed() -> None:
    assert TargetOptions(fresh_process=True).arguments == ["--fresh-process"]


# In sessions.


Session = Callable[..., int]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    def run(mode: str, *options: str) -> int:
        plan = ["--actions", "400", "--seed", "1", "--corpus", str(tmp_path / "finds")]
        return run_command_line(["run", "--command", shlex.join(command_of(mode)), *plan, *options])

    return run


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Path]:
    """The one find that came back."""
    return (
        path
        for path in (tmp_path / "finds").glob("*.jsonl")
        if traces.read(path).header.found.reduced_from  # type: ignore[union-attr]
    )


@pytest.mark.slow
def test_what_does_not_come_back_is_tried_and_reduced_with_a_process_for_each_trace(
    session: Session, found: Iterator[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert session("stale") == MISMATCH
    assert ", in a process of its own\n" in capsys.readouterr().out
    (path,) = found
    trace = traces.read(path)
    assert trace.header.fresh_process
    assert trace.actions == (FULL, STRING)


@pytest.mark.slow
def test_a_replay_gives_it_a_process_of_its_own_wherever_it_stands(
    session: Session, found: Iterator[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session("stale")
    (path,) = found
    harmless = "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:2])
    places = [tmp_path / "traces" / name for name in ("1.jsonl", "2.jsonl", "3.jsonl")]
    places[0].parent.mkdir()
    places[0].write_text(harmless, encoding="utf-8")
    places[1].write_text(harmless + '{"do": "allocate_string", "length": 0}\n', encoding="utf-8")
    shutil.copy(places[0], places[2])
    capsys.readouterr()
    command = ["--command", shlex.join(command_of("stale"))]
    assert run_command_line(["replay", str(places[0].parent), *command]) == MISMATCH
    assert "2 passed, 1 failed" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "needed"), [("later", 8), ("tenth", 9)])
def test_what_needs_earlier_traces_is_saved_with_these(
    mode: str, needed: int, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session(mode) == MISMATCH
    assert f", after {needed} earlier traces of the same process\n" in capsys.readouterr().out
    paths = [*(tmp_path / "finds").glob("*.jsonl")]
    assert paths
    for path in paths:
        assert traces.read(path).header.earlier == (EarlierTrace(),) * needed
    command = ["--command", shlex.join(command_of(mode))]
    assert run_command_line(["replay", *map(str, paths), *command]) == MISMATCH
    assert f"0 passed, {len(paths)} failed" in capsys.readouterr().out


TENTH = """\
{"gcfuzz": 2, "target": "process", "earlier": [%s]}
{"do": "allocate_string", "length": 7}
"""


@pytest.fixture
def tenth(tmp_path: Path) -> Path:
    """A trace that fails in the tenth place of a process, after more than it needs."""
    path = tmp_path / "tenth.jsonl"
    earlier = '{"actions": [{"do": "collect_full"}]}'
    path.write_text(TENTH % ", ".join([earlier] * 15), encoding="utf-8")
    return path


def test_an_explanation_says_how_many_traces_came_before(
    tenth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--command", shlex.join(command_of("tenth"))]
    assert run_command_line(["explain", str(tenth), *command]) == MISMATCH
    printed = capsys.readouterr().out
    assert "on process, after 15 earlier traces of the same process\n" in printed
    assert "crash exit code 7" in printed


@pytest.mark.slow
def test_earlier_traces_that_a_failure_does_not_need_are_removed(
    tenth: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "reduced"
    command = ["--command", shlex.join(command_of("tenth")), "--corpus", str(folder)]
    assert run_command_line(["reduce", str(tenth), *command]) == MISMATCH
    (path,) = folder.iterdir()
    reduced = traces.read(path)
    assert (reduced.header.earlier, reduced.actions) == ((EarlierTrace(),) * 9, (STRING,))


def test_an_illegal_action_in_an_earlier_trace_is_bad_input(
    tenth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenth.write_text(TENTH % '{}, {"actions": [{"do": "free", "root": 0}]}', encoding="utf-8")
    command = ["--command", shlex.join(command_of("tenth"))]
    assert run_command_line(["replay", str(tenth), *command]) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tenth}:1: earlier[1].actions[0]: free: " in line


def test_a_failure_of_an_earlier_trace_is_one_of_the_replay(
    tenth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crashing = '{"actions": [{"do": "allocate_string", "length": 0}]}'
    tenth.write_text(TENTH % ", ".join(["{}"] * 9 + [crashing]), encoding="utf-8")
    command = ["--command", shlex.join(command_of("tenth"))]
    assert run_command_line(["replay", str(tenth), *command]) == MISMATCH
    assert "; in trace 10 of the 10 earlier ones" in capsys.readouterr().out


def test_a_process_is_remembered_with_its_newest_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "EARLIER_TRACES_MAX", 3)
    target = full(make_target("process", TargetOptions(command_of("stale"), timeout_seconds=600)))
    for actions in ([], [FULL], [FULL, FULL], [FULL, FULL, FULL]):
        target.start({})
        for action in actions:
            target.perform(action)
    target.start({})
    assert [len(each.actions) for each in target.earlier] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_with_the_option_there_are_no_earlier_traces(session: Session, engine: str) -> None:
    assert session("later", "--fresh-process", "--engine", engine) == CLEAN
