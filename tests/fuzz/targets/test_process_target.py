"""A program under test: each wrong behaviour is a failure of the right action, and ends."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from command_line import Gcfuzz
from night import rest_at_night
from target_helpers import BAD_INPUT, CLEAN, INCONCLUSIVE, MISMATCH
from waiting import (
    PATIENCE_SECONDS,
    check_none_is_left,
    is_gone,
    killed_at_end,
    processes_with,
    wait_until,
)

from fuzz.engines.random import RandomEngine
from fuzz.failure import Failure
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action, AllocateString, CollectFull, EnableSampling, Free
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target, contract_of
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process.program import AHEAD_STEP, ProcessTarget

ADAPTER = Path(__file__).parents[2] / "helpers" / "misbehaving_adapter.py"
SECONDS = 1.0
"""The timeout of answers that never come; others may need long on a busy computer."""
SILENT = ("hang", "child", "no-answer", "closed", "complaints", "orphan")
MARK = f"of-{os.getpid()}"
"""The argument of the adapters of this process."""
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
    "wrong-type": "garbage: minors must be an integer, and is ",
    "fraction": "garbage: minors must be an integer, and is ",
    "twice": "garbage: not a line of JSON: a key occurs twice: ",
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
    """All living processes of the adapter."""
    return processes_with(MARK)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    check_none_is_left(MARK)


class Silent(ProcessTarget):
    """A program that never answers a full collection; its other answers may take long."""

    def _perform(self, action: Action) -> Observation:
        if action == FULL:
            self._open()._seconds_allowed = SECONDS  # noqa: SLF001 - only this wait is short
        return super()._perform(action)


def target_that(misbehaviour: str) -> ProcessTarget:
    kind = Silent if misbehaviour in SILENT else ProcessTarget
    return kind("process", command_of(misbehaviour), PATIENCE_SECONDS)


def session_of(corpus: Path, misbehaviour: str, *options: str) -> list[str]:
    """The command line of a session."""
    command = shlex.join(command_of(misbehaviour))
    return ["run", "--command", command, "--seed", "1", "--corpus", str(corpus), *options]


def failure_of(target: Target, *actions: Action) -> Failure:
    failure = run_actions(target, {}, actions)
    assert failure is not None
    return failure


WAITING = ("child", "no-answer", "closed", "complaints")
"""These take a second or more."""


@pytest.mark.parametrize(
    ("misbehaviour", "error"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] if each[0] in WAITING else [])
        for each in ERRORS.items()
    ],
)
def test_a_wrong_answer_is_an_error_of_its_action(misbehaviour: str, error: str) -> None:
    failure = failure_of(target_that(misbehaviour), STRING, FULL)
    assert failure.actions == (STRING, FULL)
    assert failure.got.startswith(error), failure.got


@pytest.mark.parametrize(
    "misbehaviour", ["exit", pytest.param("hang", marks=pytest.mark.slow), "words"]
)
def test_actions_sent_ahead_are_not_blamed(misbehaviour: str) -> None:
    actions = [STRING, Free(0)] * 50
    failure = failure_of(target_that(misbehaviour), *actions, FULL, *actions)
    assert failure.actions == (*actions, FULL)


def test_a_false_value_is_judged_by_the_contract() -> None:
    failure = failure_of(target_that("lie"), STRING, FULL)
    assert (failure.field, failure.expected, failure.got) == ("minors", "1", "0")


@pytest.mark.parametrize("misbehaviour", ["extra", "flood"])
def test_an_extra_answer_is_found_at_the_end_of_the_trace(misbehaviour: str) -> None:
    failure = failure_of(target_that(misbehaviour), STRING, FULL)
    assert failure.got == 'garbage after the last answer: "{\\"minors\\": 1}"'


def test_a_program_is_restarted_after_it_broke() -> None:
    target = target_that("exit")
    failure_of(target, FULL)
    assert run_actions(target, {}, [STRING]) is None


def test_a_trace_that_ended_early_leaves_no_answers() -> None:
    target = target_that("lie")
    failure_of(target, FULL, *[STRING, Free(0)] * 100)
    assert run_actions(target, {}, [STRING]) is None


def test_a_crash_that_a_second_process_does_not_repeat_is_a_failure(tmp_path: Path) -> None:
    boots = str(tmp_path / "boots")
    crash = f"import os; os.path.exists({boots!r}) or (open({boots!r}, 'w'), end_by_signal())"
    script = tmp_path / "adapter.py"
    answer = "            say(json.dumps(RIGHT))\n"
    text = ADAPTER.read_text(encoding="utf-8").replace(answer, f"            {crash}\n{answer}")
    script.write_text(text, encoding="utf-8")
    command = sys.executable, "-E", "-S", str(script), "no", MARK
    target = ProcessTarget("process", command, PATIENCE_SECONDS)
    failure = failure_of(target, STRING, FULL, STRING)
    assert failure.got == "crash SIGSEGV: it ended without a word"
    assert run_actions(target, {}, [STRING, FULL, STRING]) is None


def test_one_process_serves_many_traces() -> None:
    target = target_that("nothing")
    for _ in range(3):
        assert run_actions(target, {}, [STRING, FULL]) is None
    assert len(adapters()) == 1


def test_a_crash_at_a_header_fails_the_first_action() -> None:
    failure = run_actions(target_that("at-start"), TROUBLE, [STRING, FULL])
    assert failure is not None
    assert failure.actions == (STRING,)
    assert failure.got.startswith("crash SIGSEGV at start: ")


@pytest.fixture
def adapter_that_breaks_from_start(tmp_path: Path) -> Callable[[int], tuple[str, ...]]:
    """Creates a program that is correct until it is started for the n-th time."""

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
@pytest.mark.parametrize(
    ("engine", "start"),
    [("random", 2), ("random", 3), *rest_at_night([("stateful", 3), ("stateful", 2)])],
)
def test_a_program_that_breaks_at_a_later_start_is_a_failure(
    adapter_that_breaks_from_start: Callable[[int], tuple[str, ...]],
    tmp_path: Path,
    gcfuzz: Gcfuzz,
    engine: str,
    start: int,
) -> None:
    """The session itself has the first start, each worker and its first chunk another."""
    command = shlex.join(adapter_that_breaks_from_start(start))
    options = ["--actions", "65", "--seed", "1", "--corpus", str(tmp_path / "failures")]
    workers = ["--workers", str(start - 1), "--engine", engine]
    assert "got       the target ended with exit code 5 while answering the header" in (
        gcfuzz(MISMATCH, "run", "--command", command, *options, *workers).out
    )


@pytest.mark.slow
def test_a_crash_while_a_failure_is_reduced_does_not_hide_the_failure(
    adapter_that_breaks_from_start: Callable[[int], tuple[str, ...]], tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    command = adapter_that_breaks_from_start(3)
    lies = shlex.join([*command[:-2], "lie", MARK])
    options = ["--actions", "300", "--seed", "1", "--corpus", str(tmp_path / "failures")]
    printed = gcfuzz(INCONCLUSIVE, "run", "--command", lies, *options).out
    assert "FAILURE 1: heap / minors / collect_full / less" in printed


def test_a_program_that_was_deleted_after_its_contract_is_a_failure() -> None:
    contract = target_that("nothing").default_contract()
    gone = make_target("process", TargetOptions(("./gone",), contract=contract))
    failure = failure_of(gone, STRING, FULL)
    assert failure.actions == (STRING,)
    assert failure.got == "cannot be started at start: No such file or directory"


def test_the_contract_is_requested_once() -> None:
    target = target_that("nothing")
    assert contract_of(target) is contract_of(target)
    assert adapters() == []  # The first trace gets a new process.


def test_refusing_a_legal_configuration_is_a_failure() -> None:
    failure = run_actions(target_that("refuses-start"), TROUBLE, [STRING])
    assert failure is not None
    assert failure.got == "refused at start: NotImplementedError: no trouble yet"


def test_an_illegal_configuration_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="config has no setting 'nursery_bytes'"):
        target_that("nothing").start({"nursery_bytes": 64})


def test_an_illegal_period_is_never_sent() -> None:
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
def test_a_program_that_does_not_speak_the_protocol_is_bad_input(
    command: Sequence[str], problem: str
) -> None:
    with pytest.raises(BadInputError, match=problem):
        ProcessTarget("process", command, PATIENCE_SECONDS).start({})


@pytest.mark.slow
def test_a_program_that_never_answers_its_first_header_is_bad_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fuzz.targets.process.conversation.START_SECONDS", SECONDS)
    with pytest.raises(BadInputError, match=r"does not answer .* contract .*: hang: no answer"):
        ProcessTarget("process", ("sleep", "600"), SECONDS).start({})


@pytest.mark.slow
def test_a_program_that_answers_only_headers_ends_a_session_as_bad_input(
    tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    printed = gcfuzz(BAD_INPUT, *session_of(tmp_path, "always-words", "--actions", "20000"))
    assert re.search(r"FAILURE 1: heap / error / \w+ / garbage", printed.out)
    assert "seen once" not in printed.out
    [line] = [each for each in printed.err.splitlines() if "has answered no action" in each]
    assert "in 32 traces: garbage: not a line of JSON" in line
    command = ["--command", shlex.join(command_of("always-words"))]
    *_, last = gcfuzz(MISMATCH, "replay", tmp_path / "beyond", *command).out.splitlines()
    assert last.startswith("0 passed, ")


@pytest.mark.parametrize(
    ("name", "command", "problem"),
    [
        ("process", (), 'name it with --command "PROGRAM"'),
        ("reference", ("true",), "--command is the program of process"),
        ("process+stale-limit-after-large", ("true",), "can be planted in reference targets only"),
    ],
)
def test_a_wrong_command_or_name_is_bad_input(
    name: str, command: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(BadInputError, match=problem):
        make_target(name, TargetOptions(command))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["true", "--timeout", "3m"], "--timeout is 180 s; it must be at most 2m"),
        ([""], "--command is empty; name a program"),
        (["'"], '--command "\'": No closing quotation'),
        (["cat", "--memory", "5x"], "'5x' is no size; write 64, 4k, 1M or 2G"),
    ],
)
def test_a_wrong_option_of_a_program_is_bad_input(
    arguments: list[str], problem: str, gcfuzz: Gcfuzz
) -> None:
    assert problem in gcfuzz(BAD_INPUT, "run", "--command", *arguments).err


def test_a_long_error_of_many_lines_is_cut_to_one_line() -> None:
    failure = failure_of(target_that("long-error"), FULL)
    assert failure.got == ("Error: a line " + "and another line " * 99)[:200]


def test_an_excluded_action_is_not_in_the_contract() -> None:
    options = TargetOptions(command_of("nothing"), without=("collect_full",))
    contract = make_target("process", options).start({})
    assert contract.actions == ("allocate_string", "free", "enable_sampling")


def test_an_announced_action_is_answered_in_its_turn() -> None:
    target = target_that("nothing")
    target.start({})
    target.announce([AllocateString(0), AllocateString(8)])
    sizes = [target.perform(AllocateString(length)).size for length in (0, 8)]
    assert sizes == [8, 16]


def test_a_program_runs_while_actions_are_drawn(tmp_path: Path) -> None:
    received = tmp_path / "received"
    received.touch()
    program = f"tee {received} | {shlex.join(command_of('none'))}"
    target = ProcessTarget("process", ("sh", "-c", program), PATIENCE_SECONDS)
    target.start({})

    def drawn() -> Iterator[Action]:
        """The last one after the program has received the first."""
        yield from [STRING] * AHEAD_STEP
        wait_until(lambda: "allocate_string" in received.read_text(), "the first action")
        yield STRING

    target.announce(drawn())
    assert target.perform(STRING).size == 9


@pytest.mark.slow
def test_the_random_engine_draws_ahead_the_same_actions() -> None:
    slices = []
    for _ in range(2):
        engine = RandomEngine(target_that("nothing"), "7")
        slices.append([engine.run_slice(number, 500, ProbeCounter()) for number in range(33)])
    assert slices[0] == slices[1]
    assert [each.failures for each in slices[0]] == [[]] * 33
    assert sum(each.minor_collections for each in slices[0]) > 50


def test_an_action_that_was_not_announced_is_performed() -> None:
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
def test_a_session_reduces_a_wrong_answer_to_one_action(
    tmp_path: Path, gcfuzz: Gcfuzz, engine: str, misbehaviour: str
) -> None:
    session = session_of(tmp_path, misbehaviour, "--engine", engine, "--actions", "300")
    printed = gcfuzz(MISMATCH, *session)
    assert "→   1  collect_full   ← first wrong answer" in printed.out
    assert "Traceback" not in printed.err + printed.out


@pytest.mark.slow
def test_a_command_with_brackets_is_printed_unchanged(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    command = shlex.join([*command_of("nothing"), "[/x]"])
    options = ["--actions", "50", "--seed", "1", "--corpus", str(tmp_path)]
    assert "[/x]" in gcfuzz(CLEAN, "run", "--command", command, *options).out


@pytest.mark.slow
def test_a_session_finds_an_extra_answer(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    gcfuzz(MISMATCH, *session_of(tmp_path, "extra", "--actions", "300"))


@pytest.mark.slow
def test_a_session_ends_if_the_program_hangs(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(MISMATCH, *session_of(tmp_path, "hang", "--timeout", "2s", "-x")).out
    assert "got       the target did not answer this action within 2 s" in printed


class HangingSession:
    """A session whose program hangs."""

    def __init__(self, session: subprocess.Popen[bytes], misbehaviour: str) -> None:
        self.process, self._misbehaviour = session, misbehaviour

    def program(self) -> psutil.Process:
        """The program, once a worker has started it."""
        programs: list[psutil.Process] = []

        def is_there() -> bool:
            with suppress(psutil.NoSuchProcess):  # A process may end meanwhile.
                # The session itself starts the first one, which states only the contract.
                running = [each for each in adapters() if each.ppid() != self.process.pid]
                programs[:] = [each for each in running if str(ADAPTER) in each.cmdline()]
                has_daemon = len(programs) < len(running)
                return bool(programs) and has_daemon == (self._misbehaviour == "hanging-daemon")
            return False

        wait_until(is_there, "a program", self.process)
        return programs[0]


@pytest.fixture
def hanging_session(
    tmp_path: Path, unmeasured: dict[str, str], misbehaviour: str
) -> Iterator[HangingSession]:
    command = shlex.join(command_of(misbehaviour))
    limits = ["--timeout", "2m", "--time", "1h"]
    options = ["--command", command, *limits, "--seed", "1", "--corpus", str(tmp_path)]
    session = subprocess.Popen(
        [sys.executable, "-m", "fuzz", "run", *options], env=unmeasured, stdout=subprocess.DEVNULL
    )
    with killed_at_end(session):
        yield HangingSession(session, misbehaviour)


@pytest.mark.slow
@pytest.mark.parametrize("misbehaviour", ["hang", "hanging-daemon"])
@pytest.mark.parametrize("signal_sent", [signal.SIGKILL, signal.SIGINT])
def test_a_program_ends_with_its_session(
    hanging_session: HangingSession, signal_sent: signal.Signals
) -> None:
    hanging_session.program()
    hanging_session.process.send_signal(signal_sent)
    code = hanging_session.process.wait(PATIENCE_SECONDS)
    assert (code == -signal.SIGKILL) == (signal_sent == signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("misbehaviour", ["hang", "hanging-daemon"])
def test_a_program_ends_with_its_killed_worker(hanging_session: HangingSession) -> None:
    """Another worker does the same, until the session is interrupted."""
    program = hanging_session.program()
    worker = program.parent()
    assert worker is not None
    worker.kill()
    wait_until(lambda: is_gone(program), "the end of the program")
    hanging_session.program()
    hanging_session.process.terminate()
    assert hanging_session.process.wait(PATIENCE_SECONDS) == INCONCLUSIVE


SLEEPING = sys.executable, "-E", "-S", "-c", "import time; time.sleep(600)", MARK
"""A program that does not end because its input does."""
STARTS_ALL_THE_TIME = f"""
import os, threading
from fuzz.sessions import worker
from fuzz.targets.process.conversation import Conversation

os.setsid()
programs = [Conversation({SLEEPING}, 600.0)]
print("started", flush=True)
threading.Thread(target=worker.die).start()
while True:
    programs.append(Conversation({SLEEPING}, 600.0))
"""


def test_a_worker_that_dies_starts_no_more_programs(unmeasured: dict[str, str]) -> None:
    command = [sys.executable, "-c", STARTS_ALL_THE_TIME]
    ended = subprocess.run(
        command, env=unmeasured, stdout=subprocess.PIPE, check=False, timeout=PATIENCE_SECONDS
    )
    assert ended.stdout == b"started\n"
    check_none_is_left(MARK)


@pytest.mark.parametrize("child", ["daemon", pytest.param("orphan", marks=pytest.mark.slow)])
def test_the_children_of_a_program_end_with_it(child: str) -> None:
    failure = failure_of(target_that(child), FULL)
    assert failure.got.startswith("crash SIGSEGV")
    check_none_is_left(MARK)


@pytest.mark.slow
def test_a_daemon_that_starts_while_its_program_ends_ends_too() -> None:
    """On a busy machine one of twelve outlived it: Linux did not show yet whose it was."""
    for _ in range(40):
        failure_of(target_that("daemon"), FULL)
        assert adapters() == []


def test_another_programs_daemon_does_not_end() -> None:
    other = target_that("daemon-beside")
    assert run_actions(other, {}, [FULL]) is None
    wait_until(lambda: len(adapters()) == 2, "the program and its daemon")
    first = adapters()
    failure_of(target_that("daemon"), FULL)
    wait_until(lambda: {*adapters()} <= {*first}, "the end of the second daemon")
    assert adapters() == first


@pytest.mark.slow
def test_a_program_ends_with_its_terminated_replay(
    tmp_path: Path, unmeasured: dict[str, str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"gcfuzz": 2, "target": "process"}\n{"do": "collect_full"}\n')
    options = ["--command", shlex.join(command_of("hang")), "--timeout", "2m"]
    command = [sys.executable, "-m", "fuzz", "replay", str(trace), *options]
    with killed_at_end(subprocess.Popen(command, env=unmeasured)) as replay:
        wait_until(adapters, "the program", replay)
        replay.terminate()
        assert replay.wait(PATIENCE_SECONDS) == INCONCLUSIVE


# Memory.


@pytest.mark.slow
def test_a_program_that_exceeds_the_memory_is_a_failure_with_the_limit(
    tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    program = ["--command", shlex.join([sys.executable, str(ADAPTER), "memory"])]
    limited = ["--memory", "80M", "--actions", "400", "--seed", "1", "--corpus", str(tmp_path)]
    gcfuzz(MISMATCH, "run", *program, *limited)
    [path] = tmp_path.glob("*.jsonl")
    header, *actions = path.read_text().splitlines()
    assert '"memory_bytes": 83886080' in header
    assert actions == ['{"do": "collect_full"}']
    replayed = gcfuzz(MISMATCH, "replay", path, *program).out
    assert "the target took more than 80M of resident memory" in replayed
    gcfuzz(CLEAN, "replay", path, *program, "--memory", "2G")
