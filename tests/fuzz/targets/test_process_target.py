"""A program under test: whatever it does wrong is a failure of the right action, and ends."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action, AllocateString, CollectFull, EnableSampling, Free
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target, contract_of
from fuzz.run import Failure, run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process.program import AHEAD_STEP, ProcessTarget
from fuzz.terminal.cli import run_command_line

ADAPTER = Path(__file__).with_name("misbehaving_adapter.py")
CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
SECONDS = 1.0
"""How long to wait for what never answers; for the others as long as a busy machine may need."""
PATIENT_SECONDS = 600.0
SILENT = ("hang", "child", "no-answer", "closed", "complaints", "orphan")
MARK = f"of-{os.getpid()}"
"""What tells this process's adapters from others'."""
TROUBLE = {"trouble": 1}
STRING, FULL = AllocateString(1), CollectFull()
ERRORS = {
    "signal": "crash SIGSEGV: ",
    "exit": "crash exit code 3: boom",
    "silent-exit": "crash exit code 0: it ended without a word",
    "sanitizer": "crash exit code 1: SUMMARY: AddressSanitizer: heap-use-after-free collector.c:12",
    "hang": "hang: no answer within 1 s",
    "child": "hang: no answer within 1 s",
    "no-answer": "hang: no answer within 1 s",
    "closed": "crash: it closed its output, and did not end",
    "words": 'garbage: not a line of JSON: Expecting value: line 1 column 1 (char 0): "collecting',
    "no-object": 'garbage: a line must be a JSON object: "[1]"',
    "cut-off": "garbage: not a line of JSON: ",
    "unknown-field": "garbage: the contract observes no minor; did you mean `minors`?: ",
    "unlisted-field": "garbage: the contract observes no identity: ",
    "wrong-type": "garbage: invalid value for type, expected int @ $.minors: ",
    "fraction": "garbage: invalid value for type, expected int @ $.minors: ",
    "twice": "garbage: not a line of JSON: a key stands there twice: ",
    "deep": "garbage: not a line of JSON: ",
    "no-text": "garbage: not a line of JSON: ",
    "long": "garbage: a line of more than 16777216 bytes",
    "endless": "garbage: a line of more than 16777216 bytes",
    "complaints": "hang: no answer within 1 s",
    "refusal": "NotImplementedError: no full collections yet",
}


def command_of(misbehaviour: str) -> tuple[str, ...]:
    return sys.executable, "-E", "-S", str(ADAPTER), misbehaviour, MARK


def adapters() -> list[psutil.Process]:
    """The processes of the adapter that are there, however they were started."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        command = each.info["cmdline"] or []
        if MARK in command and each.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(each)
    return found


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Whatever a test does, its programs are gone at its end."""
    yield
    psutil.wait_procs(adapters())
    assert adapters() == []


MakeTarget = Callable[[str], ProcessTarget]


@pytest.fixture
def target_that() -> MakeTarget:
    """Makes a target of that misbehaviour."""

    def make(misbehaviour: str) -> ProcessTarget:
        seconds = SECONDS if misbehaviour in SILENT else PATIENT_SECONDS
        return ProcessTarget("process", command_of(misbehaviour), seconds)

    return make


def failure_of(target: Target, *actions: Action) -> Failure:
    failure = run_actions(target, {}, actions)
    assert failure is not None
    return failure


WAITING = ("child", "no-answer", "closed", "complaints")
"""What takes a second or more, like a hang."""


@pytest.mark.parametrize(
    ("misbehaviour", "error"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] if each[0] in WAITING else [])
        for each in ERRORS.items()
    ],
)
def test_what_a_program_does_wrong_is_an_error_of_the_action(
    target_that: MakeTarget, misbehaviour: str, error: str
) -> None:
    failure = failure_of(target_that(misbehaviour), STRING, FULL)
    assert failure.actions == (STRING, FULL)
    assert failure.got.startswith(error), failure.got


@pytest.mark.parametrize(
    "misbehaviour", ["exit", pytest.param("hang", marks=pytest.mark.slow), "words"]
)
def test_what_was_sent_ahead_is_not_blamed(target_that: MakeTarget, misbehaviour: str) -> None:
    actions = [STRING, Free(0)] * 50
    failure = failure_of(target_that(misbehaviour), *actions, FULL, *actions)
    assert failure.actions == (*actions, FULL)


def test_a_program_that_lies_is_judged_by_its_contract(target_that: MakeTarget) -> None:
    failure = failure_of(target_that("lie"), STRING, FULL)
    assert (failure.field, failure.expected, failure.got) == ("minors", "1", "0")


@pytest.mark.parametrize("misbehaviour", ["extra", "flood"])
def test_an_answer_too_many_is_found_when_the_trace_is_over(
    target_that: MakeTarget, misbehaviour: str
) -> None:
    failure = failure_of(target_that(misbehaviour), STRING, FULL)
    assert failure.got == 'garbage after the last answer: "{\\"minors\\": 1}"'


def test_a_program_is_started_again_after_it_broke(target_that: MakeTarget) -> None:
    target = target_that("exit")
    failure_of(target, FULL)
    assert run_actions(target, {}, [STRING]) is None


def test_a_trace_that_ended_early_leaves_no_answers_to_the_next(target_that: MakeTarget) -> None:
    target = target_that("lie")
    failure_of(target, FULL, *[STRING, Free(0)] * 100)
    assert run_actions(target, {}, [STRING]) is None


def test_a_crash_that_no_second_process_repeats_is_a_failure_all_the_same(tmp_path: Path) -> None:
    boots = str(tmp_path / "boots")
    crash = f"import os; os.path.exists({boots!r}) or (open({boots!r}, 'w'), end_by_signal())"
    script = tmp_path / "adapter.py"
    answer = "            say(json.dumps(RIGHT))\n"
    text = ADAPTER.read_text(encoding="utf-8").replace(answer, f"            {crash}\n{answer}")
    script.write_text(text, encoding="utf-8")
    command = sys.executable, "-E", "-S", str(script), "no", MARK
    target = ProcessTarget("process", command, PATIENT_SECONDS)
    failure = failure_of(target, STRING, FULL, STRING)
    assert failure.got == "crash SIGSEGV: it ended without a word"
    assert run_actions(target, {}, [STRING, FULL, STRING]) is None


def test_one_process_serves_many_traces(target_that: MakeTarget) -> None:
    target = target_that("nothing")
    for _ in range(3):
        assert run_actions(target, {}, [STRING, FULL]) is None
    assert len(adapters()) == 1


def test_a_program_that_breaks_at_a_header_fails_in_its_first_action(
    target_that: MakeTarget,
) -> None:
    failure = run_actions(target_that("at-start"), TROUBLE, [STRING, FULL])
    assert failure is not None
    assert failure.actions == (STRING,)
    assert failure.got.startswith("crash SIGSEGV at start: ")


@pytest.fixture
def adapter_that_breaks_from_its_start(tmp_path: Path) -> Callable[[int], tuple[str, ...]]:
    """Makes a program that does everything right, but for the n-th time that it is started on."""

    def make(start: int) -> tuple[str, ...]:
        starts = str(tmp_path / "starts")
        script = tmp_path / "adapter.py"
        text = ADAPTER.read_text(encoding="utf-8")
        count = f"with open({starts!r}, 'a') as file: file.write('x')"
        breaks = f"    {count}\n    os.path.getsize({starts!r}) < {start} or sys.exit(5)\n"
        main = 'if __name__ == "__main__":\n'
        script.write_text(text.replace(main, main + breaks), encoding="utf-8")
        return sys.executable, "-E", "-S", str(script), "nothing", MARK

    return make


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["random", "stateful"])
@pytest.mark.parametrize("start", [2, 3])
def test_a_program_that_breaks_at_a_later_start_is_a_find(
    adapter_that_breaks_from_its_start: Callable[[int], tuple[str, ...]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    engine: str,
    start: int,
) -> None:
    """The first is that of the session itself, and each worker has one, and a chunk."""
    command = shlex.join(adapter_that_breaks_from_its_start(start))
    options = ["--actions", "65", "--seed", "1", "--corpus", str(tmp_path / "finds")]
    workers = ["--workers", str(start - 1), "--engine", engine]
    assert run_command_line(["run", "--command", command, *options, *workers]) == MISMATCH
    assert "got       the target ended with exit code 5 while answering the header" in (
        capsys.readouterr().out
    )


@pytest.mark.slow
def test_a_program_that_breaks_while_its_find_is_reduced_does_not_hide_it(
    adapter_that_breaks_from_its_start: Callable[[int], tuple[str, ...]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = adapter_that_breaks_from_its_start(3)
    lies = shlex.join([*command[:-2], "lie", MARK])
    options = ["--actions", "300", "--seed", "1", "--corpus", str(tmp_path / "finds")]
    assert run_command_line(["run", "--command", lies, *options]) == INCONCLUSIVE
    assert "FAILURE 1: heap / minors / collect_full / less" in capsys.readouterr().out


def test_a_program_that_is_gone_since_it_was_asked_is_a_failure(target_that: MakeTarget) -> None:
    contract = target_that("nothing").default_contract()
    gone = make_target("process", TargetOptions(("./gone",), contract=contract))
    failure = failure_of(gone, STRING, FULL)
    assert failure.actions == (STRING,)
    assert failure.got == "cannot be started at start: No such file or directory"


def test_the_contract_is_asked_for_once(target_that: MakeTarget) -> None:
    target = target_that("nothing")
    assert contract_of(target) is contract_of(target)
    assert adapters() == []  # The first trace meets a process that has seen nothing.


def test_a_configuration_that_is_refused_though_promised_is_a_failure(
    target_that: MakeTarget,
) -> None:
    failure = run_actions(target_that("refuses-start"), TROUBLE, [STRING])
    assert failure is not None
    assert failure.got == "refused at start: NotImplementedError: no trouble yet"


def test_a_configuration_that_is_not_promised_is_bad_input(target_that: MakeTarget) -> None:
    with pytest.raises(BadInputError, match="config has no setting 'nursery_bytes'"):
        target_that("nothing").start({"nursery_bytes": 64})


def test_a_period_that_is_not_promised_is_never_sent(target_that: MakeTarget) -> None:
    assert run_actions(target_that("nothing"), {}, [EnableSampling(12), FULL]) is None


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("/nonexistent/adapter",), "/nonexistent/adapter: cannot be started: No such file"),
        ((str(ADAPTER.parent),), "cannot be started: Permission denied"),
        (("true",), "true: does not answer a header with a contract .*: crash exit code 0"),
        (("echo", "hello"), "does not answer a header with a contract .*: garbage: not a line"),
        (("cat",), 'the answer to a header must be {"contract": {…}}'),
    ],
)
def test_what_does_not_speak_the_protocol_at_all_is_bad_input(
    command: Sequence[str], problem: str
) -> None:
    with pytest.raises(BadInputError, match=problem):
        ProcessTarget("process", command, PATIENT_SECONDS).start({})


def test_what_a_driver_of_this_package_lacks_is_told_in_its_own_words() -> None:
    options = TargetOptions(paths={"library": Path("/nonexistent/libjemalloc.so.2")})
    with pytest.raises(BadInputError, match=r"^the target jemalloc: .*; apt install libjemalloc2$"):
        make_target("jemalloc", options).start({})


@pytest.mark.slow
def test_what_never_answers_its_first_header_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.targets.process.conversation.START_SECONDS", SECONDS)
    with pytest.raises(BadInputError, match=r"does not answer .* contract .*: hang: no answer"):
        ProcessTarget("process", ("sleep", "600"), SECONDS).start({})


@pytest.mark.slow
def test_what_answers_headers_only_ends_a_session_as_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = shlex.join(command_of("always-words"))
    options = ["--actions", "20000", "--seed", "1", "--corpus", str(tmp_path)]
    assert run_command_line(["run", "--command", command, *options]) == BAD_INPUT
    said = capsys.readouterr()
    assert re.search(r"FAILURE 1: heap / error / \w+ / garbage", said.out)
    [line] = [each for each in said.err.splitlines() if "has answered no action" in each]
    assert "in 32 traces: garbage: not a line of JSON" in line


@pytest.mark.slow
def test_failures_of_a_program_that_answers_garbage_to_every_action_reproduce(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["--command", shlex.join(command_of("always-words"))]
    run_command_line(
        ["run", *target, "--actions", "20000", "--seed", "1", "--corpus", f"{tmp_path}"]
    )
    assert "seen once" not in capsys.readouterr().out
    assert run_command_line(["replay", str(tmp_path / "beyond"), *target]) == MISMATCH
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 passed, ")


def test_a_program_that_was_not_named_is_bad_input() -> None:
    with pytest.raises(BadInputError, match='name it with --command "PROGRAM"'):
        make_target("process")


def test_a_program_beside_the_reference_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="--command is the program of process"):
        make_target("reference", TargetOptions(command=("true",)))


def test_a_time_limit_beyond_that_of_a_worker_is_bad_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["run", "--command", "true", "--timeout", "3m"]) == BAD_INPUT
    assert "--timeout is 180 s; it must be at most 2m" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "'"])
def test_a_command_that_is_none_is_bad_input(command: str) -> None:
    assert run_command_line(["run", "--command", command]) == BAD_INPUT


def test_a_long_error_of_many_lines_becomes_one_short_line(target_that: MakeTarget) -> None:
    failure = failure_of(target_that("long-error"), FULL)
    assert failure.got == ("Error: a line " + "and another line " * 99)[:200]


def test_a_bug_cannot_be_planted_in_a_program() -> None:
    with pytest.raises(BadInputError, match="bugs can be planted in reference targets only"):
        make_target("process+stale-limit-after-large", TargetOptions(command=("true",)))


def test_an_action_that_is_left_out_is_not_in_the_contract() -> None:
    options = TargetOptions(command_of("nothing"), without=("collect_full",))
    contract = make_target("process", options).start({})
    assert contract.actions == ("allocate_string", "free", "enable_sampling")


def test_an_announced_action_is_answered_in_its_turn(target_that: MakeTarget) -> None:
    target = target_that("nothing")
    target.start({})
    target.announce([AllocateString(0), AllocateString(8)])
    sizes = [target.perform(AllocateString(length)).size for length in (0, 8)]
    assert sizes == [8, 16]


def test_a_program_works_while_more_is_drawn(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    heard.touch()
    program = f"tee {heard} | {shlex.join(command_of('none'))}"
    target = ProcessTarget("process", ("sh", "-c", program), PATIENT_SECONDS)
    target.start({})
    until = time.monotonic() + PATIENT_SECONDS

    def drawn() -> Iterator[Action]:
        """The last one when the first was heard of."""
        yield from [STRING] * AHEAD_STEP
        while "allocate_string" not in heard.read_text() and time.monotonic() < until:
            time.sleep(0.01)
        yield STRING

    target.announce(drawn())
    assert target.perform(STRING).size == 9
    assert time.monotonic() < until


def test_what_the_random_engine_draws_ahead_is_the_same_every_time(target_that: MakeTarget) -> None:
    slices = []
    for _ in range(2):
        engine = RandomEngine(target_that("nothing"), "7")
        slices.append([engine.run_slice(number, 500, ProbeCounter()) for number in range(33)])
    assert slices[0] == slices[1]
    assert [each.failures for each in slices[0]] == [[]] * 33
    assert sum(each.minor_collections for each in slices[0]) > 50


def test_an_action_that_was_not_announced_is_performed_all_the_same(
    target_that: MakeTarget,
) -> None:
    target = target_that("nothing")
    target.start({})
    assert target.perform(FULL) == Observation(minors=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "misbehaviour"),
    [
        *[("random", each) for each in ("signal", "sanitizer", "words", "refusal", "lie")],
        *[("stateful", each) for each in ("exit", "lie")],
    ],
)
def test_a_session_reduces_what_a_program_does_wrong_to_one_action(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, misbehaviour: str
) -> None:
    command = shlex.join(command_of(misbehaviour))
    code = run_command_line(
        [
            *("run", "--command", command, "--engine", engine),
            *("--actions", "300", "--seed", "1", "--corpus", str(tmp_path)),
        ]
    )
    printed = capsys.readouterr()
    assert code == 1, printed
    assert "→   1  collect_full   ← first wrong answer" in printed.out
    assert "Traceback" not in printed.err + printed.out


@pytest.mark.slow
def test_a_command_with_brackets_is_printed_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = shlex.join([*command_of("nothing"), "[/x]"])
    options = ["--actions", "50", "--seed", "1", "--corpus", str(tmp_path)]
    assert run_command_line(["run", "--command", command, *options]) == 0
    assert "[/x]" in capsys.readouterr().out


@pytest.mark.slow
def test_a_session_finds_an_answer_too_many(tmp_path: Path) -> None:
    """If only as the wrong answer to what comes next."""
    options = ["--actions", "300", "--seed", "1", "--corpus", str(tmp_path)]
    command = shlex.join(command_of("extra"))
    assert run_command_line(["run", "--command", command, *options]) == MISMATCH


@pytest.mark.slow
def test_a_session_ends_though_the_program_hangs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--timeout", "2s", "--actions", "60", "--seed", "1", "--corpus", str(tmp_path)]
    code = run_command_line(["run", "--command", shlex.join(command_of("hang")), *options])
    assert code == 1
    assert "got       the target did not answer this action within 2 s" in capsys.readouterr().out


def start_hanging_session(
    corpus: Path, environment: dict[str, str], misbehaviour: str
) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """A session whose program hangs, and that program."""
    command = shlex.join(command_of(misbehaviour))
    options = ["--command", command, "--timeout", "2m", "--seed", "1", "--corpus", str(corpus)]
    session = subprocess.Popen(
        [sys.executable, "-m", "fuzz", "run", *options], env=environment, stdout=subprocess.DEVNULL
    )
    while True:
        assert session.poll() is None
        time.sleep(0.05)
        with suppress(psutil.NoSuchProcess):  # One ends while it is looked at.
            # The first one only shakes hands with the session itself.
            running = [each for each in adapters() if each.ppid() != session.pid]
            programs = [each for each in running if str(ADAPTER) in each.cmdline()]
            has_daemon = len(programs) < len(running)
            if programs and has_daemon == (misbehaviour == "hanging-daemon"):
                return session, programs[0]


@pytest.mark.slow
@pytest.mark.parametrize("misbehaviour", ["hang", "hanging-daemon"])
def test_a_program_goes_with_a_session_that_is_killed(
    tmp_path: Path, unmeasured: dict[str, str], misbehaviour: str
) -> None:
    session, _ = start_hanging_session(tmp_path, unmeasured, misbehaviour)
    session.kill()
    assert session.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("misbehaviour", ["hang", "hanging-daemon"])
def test_a_program_goes_with_a_worker_that_is_killed(
    tmp_path: Path, unmeasured: dict[str, str], misbehaviour: str
) -> None:
    """Another does the same again, until the time is up."""
    session, adapter = start_hanging_session(tmp_path, unmeasured, misbehaviour)
    parent = adapter.parent()
    assert parent is not None
    parent.kill()
    assert session.wait() == CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("misbehaviour", ["hang", "hanging-daemon"])
def test_a_program_goes_with_a_session_that_is_interrupted(
    tmp_path: Path, unmeasured: dict[str, str], misbehaviour: str
) -> None:
    session, _ = start_hanging_session(tmp_path, unmeasured, misbehaviour)
    session.send_signal(signal.SIGINT)
    session.wait()


@pytest.mark.slow
def test_what_a_program_started_ends_with_it(target_that: MakeTarget) -> None:
    """Also if the program itself has ended before."""
    target = target_that("orphan")
    failure = failure_of(target, FULL)
    assert failure.got.startswith("crash SIGSEGV")
    del target


def test_a_daemon_ends_with_the_program_that_started_it(target_that: MakeTarget) -> None:
    target = target_that("daemon")
    failure = failure_of(target, FULL)
    assert failure.got.startswith("crash SIGSEGV")
    assert adapters() == []


def test_another_program_s_daemon_is_left_alone(target_that: MakeTarget) -> None:
    other = target_that("daemon-beside")
    assert run_actions(other, {}, [FULL]) is None
    first = adapters()
    failure_of(target_that("daemon"), FULL)
    assert adapters() == first


@pytest.mark.slow
def test_a_program_goes_with_a_replay_that_is_terminated(
    tmp_path: Path, unmeasured: dict[str, str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"gcfuzz": 2, "target": "process"}\n{"do": "collect_full"}\n')
    options = ["--command", shlex.join(command_of("hang")), "--timeout", "2m"]
    replay = subprocess.Popen(
        [sys.executable, "-m", "fuzz", "replay", str(trace), *options], env=unmeasured
    )
    while not adapters():
        time.sleep(0.05)
    replay.terminate()
    assert replay.wait() == INCONCLUSIVE


# Memory.


@pytest.mark.slow
def test_a_program_beyond_its_memory_is_a_failure_that_keeps_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = ["--command", shlex.join([sys.executable, str(ADAPTER), "memory"])]
    limited = ["--memory", "80M", "--actions", "400", "--seed", "1", "--corpus", str(tmp_path)]
    assert run_command_line(["run", *program, *limited]) == MISMATCH
    [path] = tmp_path.glob("*.jsonl")
    header, *actions = path.read_text().splitlines()
    assert '"memory_bytes": 83886080' in header
    assert actions == ['{"do": "collect_full"}']
    capsys.readouterr()
    assert run_command_line(["replay", str(path), *program]) == MISMATCH
    assert "the target took more than 80M of resident memory" in capsys.readouterr().out
    assert run_command_line(["replay", str(path), *program, "--memory", "2G"]) == CLEAN


def test_a_size_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "--command", "cat", "--memory", "5x"]) == BAD_INPUT
    assert "'5x' is no size; write 64, 4k, 1M or 2G" in capsys.readouterr().err
