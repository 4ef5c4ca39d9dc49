"""A program that keeps something between traces: each trace may have its own process."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from command_line import Gcfuzz
from target_helpers import BAD_INPUT, CLEAN, MISMATCH

from fuzz.failure import Failure
from fuzz.failures import corpus
from fuzz.failures.reduce import reduce_failure
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateString, CollectFull
from fuzz.protocol.target import FullTarget, full
from fuzz.protocol.trace import EarlierTrace
from fuzz.run import run_actions, run_again
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process import earlier
from fuzz.terminal.commands.cli import run_command_line

ADAPTER = Path(__file__).parents[2] / "helpers" / "forgetful_adapter.py"
STRING, FULL = AllocateString(0), CollectFull()


def command_of(mode: str) -> tuple[str, ...]:
    return sys.executable, "-E", "-S", str(ADAPTER), mode


def target_of(
    mode: str, *, fresh_process: bool = False, timeout_seconds: float = 600
) -> FullTarget:
    options = TargetOptions(command_of(mode), timeout_seconds, fresh_process=fresh_process)
    return full(make_target("process", options))


@pytest.mark.parametrize(
    ("mode", "fresh_process", "fails"),
    [("stale", False, True), ("stale", True, False), ("asks", False, False)],
)
def test_the_second_trace_fails_unless_it_has_its_own_process(
    mode: str, fresh_process: bool, fails: bool
) -> None:
    target = target_of(mode, fresh_process=fresh_process)
    assert run_actions(target, {}, [STRING]) is None
    assert (run_actions(target, {}, [STRING]) is not None) == fails


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
def test_a_wrong_end_of_a_process_is_a_failure(mode: str, problem: str) -> None:
    target = target_of(mode, fresh_process=True, timeout_seconds=5 if mode == "hang" else 600)
    failure = run_actions(target, {}, [STRING, FULL])
    assert failure is not None
    assert (failure.actions, failure.got) == ((STRING, FULL), problem)


@pytest.mark.slow
def test_a_process_has_the_time_of_an_answer_to_end() -> None:
    assert run_actions(target_of("late", fresh_process=True), {}, [STRING, FULL]) is None


def test_only_a_program_can_have_a_fresh_process() -> None:
    with pytest.raises(BadInputError, match="--fresh-process: reference is not a program"):
        make_target("reference", TargetOptions(fresh_process=True))


# In sessions.


Session = Callable[..., int]


def run_command(name: str, mode: str, *arguments: str) -> int:
    return run_command_line([name, "--command", shlex.join(command_of(mode)), *arguments])


@pytest.fixture
def session(tmp_path: Path) -> Session:
    def run(mode: str, *options: str) -> int:
        plan = ["--actions", "400", "--seed", "1", "--corpus", str(tmp_path / "failures")]
        return run_command("run", mode, *plan, *options)

    return run


@pytest.mark.slow
def test_a_failure_that_needs_a_fresh_process_is_reduced_and_replayed_with_one(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session("stale") == MISMATCH
    assert ", in a process of its own\n" in capsys.readouterr().out
    found = {path: traces.read(path) for path in (tmp_path / "failures").glob("*.jsonl")}
    [(path, trace)] = [
        (path, trace)
        for path, trace in found.items()
        if trace.header.found and trace.header.found.reduced_from
    ]
    assert trace.header.fresh_process
    assert trace.actions == (FULL, STRING)

    harmless = "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:2])
    string = '{"do": "allocate_string", "length": 0}\n'
    folder = tmp_path / "traces"
    folder.mkdir()
    for name, text in (("1", harmless), ("2", harmless + string), ("3", harmless)):
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    assert run_command("replay", "stale", str(folder)) == MISMATCH
    assert "2 passed, 1 failed" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["", "x"])
def test_a_shorter_trace_that_fails_by_chance_in_a_new_process_is_not_taken(
    processes: str, tmp_path: Path
) -> None:
    count = tmp_path / "processes"
    count.write_text(processes)
    command = (*command_of("chance"), str(count))
    target = make_target("process", TargetOptions(command, timeout_seconds=600, fresh_process=True))
    failure = run_actions(target, {}, [FULL, FULL, STRING])
    assert failure is not None
    assert reduce_failure(target, failure).actions == (FULL, STRING)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "needed"), [("later", 8), ("tenth", 9)])
def test_a_failure_that_needs_earlier_traces_is_saved_with_them(
    mode: str, needed: int, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session(mode) == MISMATCH
    assert f", after {needed} earlier traces of the same process\n" in capsys.readouterr().out
    paths = [*(tmp_path / "failures").glob("*.jsonl")]
    assert paths
    for path in paths:
        assert traces.read(path).header.earlier == (EarlierTrace(),) * needed
    assert run_command("replay", mode, *map(str, paths)) == MISMATCH
    assert f"0 passed, {len(paths)} failed" in capsys.readouterr().out


TENTH = """\
{"gcfuzz": 2, "target": "process", "earlier": [%s]}
{"do": "allocate_string", "length": 7}
"""


@pytest.fixture
def tenth(tmp_path: Path) -> Path:
    """A trace that fails as the tenth one of a process, with 15 traces before it."""
    path = tmp_path / "tenth.jsonl"
    earlier = '{"actions": [{"do": "collect_full"}]}'
    path.write_text(TENTH % ", ".join([earlier] * 15), encoding="utf-8")
    return path


def test_an_explanation_counts_the_earlier_traces(
    tenth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("explain", "tenth", str(tenth)) == MISMATCH
    printed = capsys.readouterr().out
    assert "on process, after 15 earlier traces of the same process\n" in printed
    assert "crash exit code 7" in printed


@pytest.mark.slow
def test_reducing_removes_unnecessary_earlier_traces(tenth: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reduced"
    assert run_command("reduce", "tenth", str(tenth), "--corpus", str(folder)) == MISMATCH
    (path,) = folder.iterdir()
    reduced = traces.read(path)
    assert (reduced.header.earlier, reduced.actions) == ((EarlierTrace(),) * 9, (STRING,))


def test_an_illegal_action_in_an_earlier_trace_is_bad_input(
    tenth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenth.write_text(TENTH % '{}, {"actions": [{"do": "free", "root": 0}]}', encoding="utf-8")
    assert run_command("replay", "tenth", str(tenth)) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tenth}:1: earlier[1].actions[0]: free: " in line


def test_a_failure_of_an_earlier_trace_fails_the_replay(
    tenth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crashing = '{"actions": [{"do": "allocate_string", "length": 0}]}'
    tenth.write_text(TENTH % ", ".join(["{}"] * 9 + [crashing]), encoding="utf-8")
    assert run_command("replay", "tenth", str(tenth)) == MISMATCH
    assert "; in trace 10 of the 10 earlier ones" in capsys.readouterr().out


def test_a_failure_of_an_earlier_trace_fails_the_replay_of_a_trace_without_actions(
    tenth: Path,
) -> None:
    crashing = '{"actions": [{"do": "allocate_string", "length": 0}]}'
    header, _ = (TENTH % ", ".join(["{}"] * 9 + [crashing])).splitlines()
    tenth.write_text(header + "\n", encoding="utf-8")
    assert run_command("replay", "tenth", str(tenth)) == MISMATCH


AFTER_NINE = (*[EarlierTrace()] * 9, EarlierTrace(actions=(STRING,)))
"""The last of these traces crashes a process that crashes from its tenth header on."""


def crash_after(*earlier: EarlierTrace) -> Failure:
    wanted = Failure("heap", "error", "collect_full", "", "", "", "", earlier=earlier)
    failure = run_again(target_of("tenth"), wanted, {}, [FULL])
    assert isinstance(failure, Failure)
    return failure


def test_a_failure_that_an_earlier_trace_shows_is_that_trace_s() -> None:
    failure = crash_after(*AFTER_NINE, EarlierTrace())
    assert (failure.earlier, failure.actions) == (AFTER_NINE[:9], (STRING,))


def test_what_fails_among_earlier_traces_is_saved_in_place_of_what_was_found(
    tmp_path: Path,
) -> None:
    crash = crash_after(*AFTER_NINE)
    found = attrs.evolve(crash, action="collect_full", actions=(FULL,), earlier=AFTER_NINE)
    options = TargetOptions(command_of("tenth"), timeout_seconds=600)
    origin = corpus.Origin(tmp_path, "process", "random", 1, options)
    saved = corpus.reduce_saved(origin, corpus.save_found(origin, found))
    assert saved.reproduced
    assert saved.failure.identity == crash.identity
    assert run_command("replay", "tenth", str(saved.path)) == MISMATCH


def test_the_newest_traces_of_a_process_keep_their_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "EARLIER_TRACES_MAX", 3)
    target = target_of("stale")
    for actions in ([FULL], [FULL], [FULL, FULL], [FULL, FULL, FULL]):
        target.start({})
        for action in actions:
            target.perform(action)
    target.start({})
    assert [len(each.actions) for each in target.earlier] == [0, 1, 2, 3]


@pytest.mark.slow  # Each candidate starts two programs.
@pytest.mark.parametrize(
    ("before", "code", "change"), [("right", MISMATCH, "BROKE"), ("later", CLEAN, "STILL-FAILS")]
)
def test_a_difference_that_needs_earlier_traces_reproduces(
    before: str, code: int, change: str, tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    versions = [shlex.join(command_of(mode)) for mode in (before, "later")]
    plan = ["--actions", "200", "--seed", "1", "--corpus", str(tmp_path / "failures")]
    compared = ["run", "--before", versions[0], "--after", versions[1], *plan]
    printed = gcfuzz(code, *compared, "--target", "process").out
    assert f"{change} 1: " in printed
    assert "did NOT reproduce" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_with_fresh_processes_no_failure_needs_earlier_traces(
    session: Session, engine: str
) -> None:
    assert session("later", "--fresh-process", "--engine", engine) == CLEAN
