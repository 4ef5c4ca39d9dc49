"""The command line: exit codes, and the one line for each mistake."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import Complaint, Gcfuzz
from waiting import PATIENCE_SECONDS

import fuzz
from fuzz.failures.trace_files import shipped_traces
from fuzz.protocol.trace import Trace, dumps
from fuzz.targets import REFERENCE, make_target
from fuzz.targets.bugs.known_bug import KnownBug
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS, planted_parts
from fuzz.targets.references import REFERENCES
from fuzz.targets.references.collector import SETTINGS, ReferenceTarget
from fuzz.terminal.commands.cli import run_command_line
from gcmodel.sampling.sample_point import Sampling

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG = range(5)
BUG = "one-sample-per-object"
PLANTED = ["--target", f"reference+{BUG}"]
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'
ENABLE = '{"do": "enable_sampling", "period_bytes": 8}\n'
FAILING = HEADER + ENABLE + '{"do": "allocate_node", "number": 0}\n'
"""It fails with BUG planted."""
BAD_SIZES = (12, 0, -8, 2**64)


class FailsOnce(Sampling):
    """Enabling crashes, the first time in this process."""

    crashed = False

    def enable(self, period_bytes: int) -> None:
        if not FailsOnce.crashed:
            FailsOnce.crashed = True
            raise RuntimeError("once")
        super().enable(period_bytes)


pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def failing(empty_folder: Path) -> str:
    """A trace that fails with BUG planted."""
    (empty_folder / "failing.jsonl").write_text(FAILING)
    return "failing.jsonl"


def run_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    command = [sys.executable, "-m", "fuzz", *arguments]
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, env=environment, check=False, text=True, **options, timeout=PATIENCE_SECONDS
    )
    return done


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        *(
            (f"run --time {shlex.quote(time)}", ["write 500ms, 30s, 10m or 2h"])
            for time in ("soon", "0s", "10", "-1s", "0.0h", "")
        ),
        ("run --workers 0", ["--workers"]),
        ("run --workers 257", ["--workers"]),
        ("run --workers two", ["--workers"]),
        ("run --actions 0", ["--actions"]),
        ("run --seed -1", ["--seed"]),
        ("run --engine steam", ["--engine", "random", "stateful"]),
        ("run --time 1s --actions 10", ["--time", "--actions"]),
        ("run --target boehm", ["'boehm'"]),
        ("run --target ''", ["target"]),
        ("run --target refernce", ["; did you mean `reference`?"]),
        ("run --target jemaloc", ["; did you mean `jemalloc`?"]),
        ("run --target reference+stale-limit", ["; did you mean `stale-limit-after-large`?"]),
        ("run --engine rendom", ["; did you mean `random`?"]),
        ("run --without alocate_node", ["; did you mean `allocate_node`?"]),
        ("run --without xyz", ["`gcfuzz help protocol` lists them"]),
        ("run --corpus taken", ["taken: cannot be the corpus folder"]),
        ("run --summary missing/s.json", ["missing/s.json"]),
        ("run --summary folder", ["folder"]),
        ("bugs stale-limit-after", ["; did you mean `stale-limit-after-large`?"]),
        (f"replay taken --target reference+{BUG}+{BUG}", [BUG]),
        ("replay taken/nothing.jsonl", ["taken/nothing.jsonl"]),
        ("reduce nothing.jsonl", ["nothing.jsonl"]),
        ("replay", ["FILE|DIR"]),
        ("replay folder", ["folder: the folder has no traces"]),
        ("replay binary.jsonl", ["binary.jsonl: not a text file"]),
        ("replay other.jsonl", ["'boehm'"]),
        (f"reduce taken --target reference+{BUG} --corpus taken/corpus", ["taken/corpus"]),
        ("targets --java jdk", ["gcfuzz: --java needs --available\n"]),
        ("fuzz", ["'fuzz'"]),
    ],
)
def test_a_mistake_gets_one_line(arguments: str, messages: list[str], complaint: Complaint) -> None:
    Path("taken").write_text(FAILING)
    Path("folder").mkdir()
    Path("binary.jsonl").write_bytes(b"\xff\xfe\x00")
    Path("other.jsonl").write_text(HEADER.replace("reference", "boehm"))
    line = complaint(*shlex.split(arguments))
    assert [message for message in messages if message not in line] == []


def test_a_long_list_of_names_is_not_printed(complaint: Complaint) -> None:
    assert len(complaint("run", "--without", "xyz")) < 100


def test_an_unknown_bug_is_named_with_those_of_its_host(complaint: Complaint) -> None:
    printed = complaint("run", "--target", "reference-jemalloc+typo")
    assert "'typo'" in printed
    of_host = [bug.id for bug in KNOWN_BUGS.values() if bug.host == "reference-jemalloc"]
    assert [bug for bug in KNOWN_BUGS if bug in printed] == of_host


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "broken.jsonl: "),
        ("hello\n", "broken.jsonl:1: "),
        (ENABLE, "broken.jsonl:1: "),
        ('{"gcfuzz": 1, "target": "reference"}\n', "broken.jsonl:1: "),
        ('{"gcfuzz": 3, "target": "reference"}\n', "broken.jsonl:1: "),
        (HEADER + ENABLE + '{"do": "collect', "broken.jsonl:3: "),
        (HEADER + ENABLE + '{"do": "dance"}\n', "broken.jsonl:3: "),
        (HEADER + ENABLE + '{"do": "free", "root": 0}\n', "broken.jsonl:3: free: "),
        (HEADER + '{"do": "free", "root": 0, "twice": true}\n', "broken.jsonl:2: "),
        (HEADER + '{"do": "free", "root": "0"}\n', "broken.jsonl:2: "),
        *(
            (
                HEADER.replace("}", f', "config": {{"nursery_bytes": {size}}}}}'),
                f"broken.jsonl:1: nursery_bytes is {size}; it must be a multiple of 8 from 64 to",
            )
            for size in BAD_SIZES
        ),
        *(
            (
                HEADER + ENABLE.replace("8", str(size)),
                f"broken.jsonl:2: enable_sampling: period_bytes is {size}; it must be a multiple",
            )
            for size in BAD_SIZES
        ),
    ],
)
@pytest.mark.parametrize("command", ["replay", "reduce"])
def test_a_broken_trace_is_named_with_the_line(
    command: str, content: str, message: str, complaint: Complaint
) -> None:
    Path("broken.jsonl").write_text(content)
    assert complaint(command, "broken.jsonl").startswith(f"gcfuzz: {message}")


# The corpus.


@pytest.mark.slow
def test_by_default_failures_are_saved_in_a_folder_that_git_ignores() -> None:
    assert run_command_line(["run", "--actions", "500", "--seed", "1", *PLANTED]) == MISMATCH
    (folder,) = Path().iterdir()
    assert folder.name == "gcfuzz-failures"
    assert (folder / ".gitignore").read_text() == "*\n"
    assert [*folder.glob("*.jsonl")]


@pytest.mark.slow
def test_a_folder_that_the_user_named_or_created_gets_no_gitignore() -> None:
    Path("gcfuzz-failures").mkdir()
    for corpus in ([], ["--corpus", "mine"]):
        assert run_command_line(["run", "--actions", "10", "--seed", "1", *corpus]) == CLEAN
    assert [*Path().rglob(".gitignore")] == []


# replay


@pytest.mark.slow
def test_the_shipped_traces_pass(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    for name, trace in shipped_traces().items():
        (tmp_path / name).write_text(dumps(trace))
    assert f"{len(shipped_traces())} passed, 0 failed" in gcfuzz(CLEAN, "replay", ".").out


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        ("reference", [], CLEAN),
        ("reference", PLANTED, MISMATCH),
        (f"reference+{BUG}", [], MISMATCH),
        (f"reference+{BUG}", ["--target", "reference"], CLEAN),
    ],
)
def test_a_trace_runs_on_the_given_target(target: str, options: list[str], code: int) -> None:
    Path("trace.jsonl").write_text(FAILING.replace("reference", target))
    assert run_command_line(["replay", "trace.jsonl", *options]) == code


def test_a_failure_does_not_end_a_replay(failing: str, gcfuzz: Gcfuzz) -> None:
    Path("passing.jsonl").write_text(HEADER)
    printed = gcfuzz(MISMATCH, "replay", failing, "passing.jsonl", *PLANTED).out
    assert "1 passed, 1 failed" in printed


@pytest.mark.parametrize(("options", "failed"), [([], 0), (PLANTED, 1)])
def test_a_folder_is_replayed_to_its_end_and_broken_files_outweigh_failures(
    options: list[str], failed: int, failing: str, gcfuzz: Gcfuzz
) -> None:
    Path("0-broken.jsonl").write_text("hello\n")
    Path("1-folder.jsonl").mkdir()
    Path("passing.jsonl").write_text(HEADER)
    printed = gcfuzz(BAD_INPUT, "replay", ".", *options)
    totals = f"{2 - failed} passed, {failed} failed, 2 could not be replayed"
    assert totals in printed.out
    names = [line.split(":")[1] for line in printed.err.splitlines()]
    assert names == [" 0-broken.jsonl", " 1-folder.jsonl"]


def test_a_problem_of_the_target_is_reported_once(failing: str, complaint: Complaint) -> None:
    Path("passing.jsonl").write_text(HEADER)
    assert "cannot be started" in complaint("replay", ".", "--command", "./missing")


# reduce


def test_reducing_saves_a_shorter_trace_that_fails() -> None:
    padded = FAILING + '{"do": "collect_full"}\n{"do": "check_heap"}\n'
    padded = padded.replace(ENABLE, '{"do": "allocate_string", "length": 30}\n' * 9 + ENABLE)
    Path("padded.jsonl").write_text(padded)
    assert run_command_line(["reduce", "padded.jsonl", *PLANTED, "--corpus", "out"]) == MISMATCH
    (saved,) = Path("out").iterdir()
    assert len(saved.read_text().splitlines()) == len(FAILING.splitlines())
    assert run_command_line(["replay", str(saved)]) == MISMATCH
    assert Path("padded.jsonl").read_text() == padded


def test_by_default_reducing_saves_beside_the_file() -> None:
    Path("failures").mkdir()
    Path("failures/padded.jsonl").write_text(FAILING + '{"do": "collect_full"}\n')
    assert run_command_line(["reduce", "failures/padded.jsonl", *PLANTED]) == MISMATCH
    assert len(list(Path("failures").iterdir())) == 2
    assert [path.name for path in Path().iterdir()] == ["failures"]


def test_reducing_again_keeps_the_first_number(gcfuzz: Gcfuzz) -> None:
    found = '"found": {"oracle": "o", "message": "m", "engine": "stateful", "reduced_from": 390}'
    padded = FAILING + '{"do": "collect_full"}\n'
    Path("padded.jsonl").write_text(padded.replace("}\n", f", {found}}}\n", 1))
    printed = gcfuzz(MISMATCH, "reduce", "padded.jsonl", *PLANTED, "--corpus", "out").out
    assert "by the stateful engine, reduced from 390 actions" in printed
    (saved,) = Path("out").iterdir()
    assert '"reduced_from": 390' in saved.read_text()


def test_a_passing_trace_is_not_reduced(failing: str, gcfuzz: Gcfuzz) -> None:
    assert "nothing to reduce" in gcfuzz(CLEAN, "reduce", failing).out
    assert [path.name for path in Path().iterdir()] == [failing]


def test_a_failure_that_does_not_reproduce_is_inconclusive(
    monkeypatch: pytest.MonkeyPatch, gcfuzz: Gcfuzz
) -> None:
    flaky = KnownBug("flaky", "our own", "crashes once", ("heap",), 1, {"sampling": FailsOnce})
    monkeypatch.setitem(KNOWN_BUGS, "flaky", flaky)
    monkeypatch.setattr(FailsOnce, "crashed", False)
    Path("flaky.jsonl").write_text(HEADER + ENABLE)
    printed = gcfuzz(INCONCLUSIVE, "reduce", "flaky.jsonl", "--target", "reference+flaky").out
    assert "did NOT reproduce in 1 run)" in printed
    assert Path("flaky.jsonl").read_text() == HEADER + ENABLE


# Bugs of gcfuzz.


def test_a_bug_of_gcfuzz_is_reported_as_such(
    failing: str, monkeypatch: pytest.MonkeyPatch, gcfuzz: Gcfuzz
) -> None:
    misplaced = KnownBug("misplaced", "our own", "no such part", (), 1, {"engine_room": Sampling})
    monkeypatch.setitem(KNOWN_BUGS, "misplaced", misplaced)
    printed = gcfuzz(HARNESS_BUG, "replay", failing, "--target", "reference+misplaced").err
    assert "gcfuzz: this is a bug of gcfuzz itself" in printed


def traces_without_bug() -> dict[str, Trace]:
    return {name: trace for name, trace in shipped_traces().items() if BUG not in name}


def trace_without_actions() -> dict[str, Trace]:
    killer = next(each for each in shipped_traces().values() if BUG in each.header.kills)
    return {"blunt": Trace(killer.header, ())}


@pytest.mark.parametrize(
    ("shipped", "message"),
    [
        (traces_without_bug, f"no trace for the planted bugs {BUG}"),
        (trace_without_actions, f"the planted bug {BUG} was caught by no oracle in blunt"),
    ],
)
def test_a_session_whose_self_check_fails_does_not_start(
    shipped: Callable[[], dict[str, Trace]],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    gcfuzz: Gcfuzz,
) -> None:
    made = shipped()
    monkeypatch.setattr("fuzz.sessions.selfcheck.shipped_traces", lambda: made)
    printed = gcfuzz(HARNESS_BUG, "run", "--actions", "10").err
    assert printed == f"gcfuzz: the harness is broken: {message}\n"


@pytest.mark.slow
def test_a_session_finds_the_first_trace_of_a_planted_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = traces_without_bug()
    monkeypatch.setattr("fuzz.sessions.selfcheck.shipped_traces", lambda: made)
    options = ["--actions", "2000", "--seed", "1", "-x", "--corpus", str(tmp_path)]
    assert run_command_line(["run", "--target", f"reference+{BUG}", *options]) == MISMATCH


def test_a_self_check_distinguishes_a_broken_reference_from_a_broken_oracle(
    monkeypatch: pytest.MonkeyPatch, gcfuzz: Gcfuzz
) -> None:
    broken = attrs.evolve(ReferenceTarget.PARTS, **planted_parts([BUG]))
    monkeypatch.setattr(ReferenceTarget, "PARTS", broken)
    printed = gcfuzz(HARNESS_BUG, "run", "--actions", "10").err
    assert printed.startswith("gcfuzz: the reference collector is broken: it fails its own trace ")
    assert "no bug planted: " in printed


# The process.


@pytest.mark.slow
@pytest.mark.parametrize(("options", "code"), [([], CLEAN), (PLANTED, MISMATCH)])
def test_a_process_has_the_exit_code(options: list[str], code: int, failing: str) -> None:
    assert run_process("replay", failing, *options, capture_output=True).returncode == code


@pytest.mark.slow
def test_a_reader_that_leaves_is_not_a_mismatch(failing: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert run_process("replay", failing, stdout=theirs).returncode != MISMATCH
    finally:
        os.close(theirs)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_summary_on_a_full_disk_is_bad_input(complaint: Complaint) -> None:
    assert "/dev/full" in complaint("run", "--actions", "10", "--summary", "/dev/full")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("replay failing.jsonl --command './missing'", marks=pytest.mark.slow),
        "replay failing.jsonl --command 'cat'",
        pytest.param("run --actions 10", marks=pytest.mark.slow),
        pytest.param("run --actions 10 --command 'cat'", marks=pytest.mark.slow),
        pytest.param(f"bugs {BUG} --seeds 1", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("failing")
def test_too_few_open_files_get_one_line(command: str) -> None:
    script = f"ulimit -n 8; exec {sys.executable} -m fuzz {command}"
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    ran = subprocess.run(
        ["sh", "-c", script],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert ran.returncode == BAD_INPUT, ran.stderr
    assert re.fullmatch(r"gcfuzz: .*Too many open files.*\n", ran.stderr)


# Lists and help.


@pytest.fixture
def printed(gcfuzz: Gcfuzz) -> Callable[..., str]:
    """The output of a command that is clean."""
    return lambda *arguments: gcfuzz(CLEAN, *arguments).out


Printed = Callable[..., str]


def test_targets_lists_every_setting_and_bug(printed: Printed) -> None:
    listed = printed("targets")
    assert [each.name for each in SETTINGS if each.name not in listed] == []
    assert "the settings of reference but pin_while_sampling, and" in listed
    assert "the settings of reference\n\n" in listed
    words = " ".join(listed.split())
    bugs = KNOWN_BUGS.values()
    assert [bug.id for bug in bugs if f"{bug.id} {bug.what} {bug.seen_in}" not in words] == []


def test_targets_lists_the_settings_that_the_reference_does_not_have(printed: Printed) -> None:
    listed = printed("targets")
    for name in (name for name in REFERENCES if name != REFERENCE):
        (part,) = re.findall(rf"^{name}: (.*?)\n\n", listed, re.MULTILINE | re.DOTALL)
        names = set(re.findall(r"^(\w+) +\d+  ", part, re.MULTILINE))
        settings = make_target(name).start({}).settings
        assert names == {each.name for each in settings if each not in SETTINGS}, name


def test_targets_are_listed_whole_where_no_terminal_wraps_them(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = (
        "nursery_bytes       512      a multiple of 8 from 128 to 65536\n"
        "large_object_bytes  128      from 73 to 65536, at most nursery_bytes\n"
    )
    assert table in printed("targets")


@pytest.mark.slow
def test_targets_lists_what_to_install(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    python = os.environ.get("GCFUZZ_PROFILERS")
    where = ["--python", python] if python else []
    _, *rows = printed("targets", "--available", *where).splitlines()
    listed = dict(row.split(maxsplit=1) for row in rows)
    assert re.fullmatch("none .* install --target DIR .*", listed.pop("incminimark").strip())
    assert "hotspot" in listed
    for profiler in ("ddtrace", "scalene"):
        hint = r"none .*: pip install 'gcfuzz\[python-profilers\]', or name a Python .*--python"
        version = rf"(?i:{profiler}) \d.*"
        row = listed[profiler].strip()
        assert re.fullmatch(version if python else f"{version}|{hint}", row)
    for rest in listed.values():
        assert re.fullmatch(r"\S.* \d+\.\d+\S*|none .*(apt|npm|pip) install .*", rest.strip())


def test_bugs_first_prints_how_much_there_is_to_do(printed: Printed) -> None:
    first, *_ = printed("bugs", BUG, "--seeds", "1").splitlines()
    assert first == "1 bug, 1 seed each: 1 hunt, each of 20,000 actions at most"


def test_probes_counts_what_was_reached_and_shows_how(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--target", "reference-tcmalloc", "--actions", "40"]
    assert run_command_line(["probes", *few]) in {CLEAN, INCONCLUSIVE}
    _, *rows, last = capsys.readouterr().out.splitlines()
    assert re.search(r"^block_sampled +[1-9]", "\n".join(rows), re.MULTILINE)
    assert any(row.strip().startswith(("malloc", "calloc")) for row in rows)
    assert re.fullmatch(r"\d+ of \d+ probes reached in 40 actions", last)


def test_combinations_are_counted_and_the_missed_ones_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["--target", "reference", "--actions", "40", "--combinations"]
    assert run_command_line(["probes", *few]) == INCONCLUSIVE
    first, *rows = capsys.readouterr().out.splitlines()
    assert first == "In 40 actions these held at once:"
    assert re.fullmatch(r"\d+ of [\d,]+ pairs of facts \(\d+ %\)", rows[1])
    assert any(re.fullmatch(r"missed: [\w ]+, [\w ]+, [\w ]+", row) for row in rows)
    assert rows[-1] == "the planner cannot bring about, under this contract: none of these facts"


COMMANDS = ("run", "replay", "reduce", "targets", "profile", "bugs", "probes", "schema")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_help_has_no_defaults_in_parentheses(command: str, printed: Printed) -> None:
    text = printed(command, "--help")
    assert text.startswith(f"Usage: gcfuzz {command}")
    assert text == printed(command, "-h")
    assert "default: (" not in " ".join(text.split())


@pytest.mark.parametrize("command", ["run", "targets"])
def test_an_option_of_several_targets_has_several_lines(command: str, printed: Printed) -> None:
    own, _, of_targets = printed(command, "--help").partition("Options of targets:\n")
    assert "\n  --library PATH" not in own
    meanings = re.findall(r"^  --library PATH +(\S.*)$", of_targets, re.MULTILINE)
    assert [each[:22] for each in meanings] == [
        *("The library of gperfto", "The library of jemallo", "The program that has t")
    ]


def test_the_help_lists_the_commands(printed: Printed) -> None:
    text = printed("--help")
    assert [command for command in COMMANDS if command not in text] == []
    _, _, own = text.partition("To change gcfuzz itself:\n")
    assert re.findall(r"^  (\w+)", own, re.MULTILINE) == ["bugs", "probes"]
