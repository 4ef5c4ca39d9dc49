"""The command line: exit codes, and the one line that each mistake gets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

import fuzz
from fuzz.protocol.trace import Trace, dumps
from fuzz.sessions.corpus import shipped_traces
from fuzz.targets import REFERENCE, make_target
from fuzz.targets.bugs.known_bug import KnownBug
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS, planted_parts
from fuzz.targets.references import REFERENCES
from fuzz.targets.references.collector import SETTINGS, ReferenceTarget
from fuzz.terminal.cli import run_command_line
from gcmodel.sampling.sample_point import Sampling

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG = range(5)
BUG = "one-sample-per-object"
PLANTED = ["--target", f"reference+{BUG}"]
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'
ENABLE = '{"do": "enable_sampling", "period_bytes": 8}\n'
FAILING = HEADER + ENABLE + '{"do": "allocate_node", "number": 0}\n'
"""It fails where BUG is planted."""
BAD_SIZES = (12, 0, -8, 2**64)

Complaint = Callable[..., str]


class FailsOnce(Sampling):
    """Enabling crashes, the first time in this process."""

    crashed = False

    def enable(self, period_bytes: int) -> None:
        if not FailsOnce.crashed:
            FailsOnce.crashed = True
            raise RuntimeError("once")
        super().enable(period_bytes)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Complaint:
    """Run a command that is bad input; returns its one line on stderr."""

    def run(*arguments: str) -> str:
        assert run_command_line([*arguments]) == BAD_INPUT
        printed = capsys.readouterr().err
        assert printed.startswith("gcfuzz: ")
        assert printed.count("\n") == 1
        return printed

    return run


@pytest.fixture
def failing(tmp_path: Path) -> str:
    """A trace that fails where BUG is planted."""
    path = tmp_path / "failing.jsonl"
    path.write_text(FAILING)
    return path.name


def trace_killing(bug: str) -> Trace:
    return next(trace for trace in shipped_traces().values() if bug in trace.header.kills)


def exit_code(*arguments: str, stdout: int = subprocess.DEVNULL) -> int:
    """The exit code of a real process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    command = [sys.executable, "-m", "fuzz", *arguments]
    ran = subprocess.run(
        command, env=environment, check=False, stdout=stdout, stderr=subprocess.DEVNULL
    )
    return ran.returncode


# What cannot be asked for.


@pytest.mark.parametrize("time", ["soon", "0s", "10", "-1s", "0.0h", ""])
def test_a_time_that_is_none_is_bad_input(time: str, complaint: Complaint) -> None:
    assert "write 500ms, 30s, 10m or 2h" in complaint("run", "--time", time)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--workers", "0"),
        ("--workers", "257"),
        ("--workers", "two"),
        ("--actions", "0"),
        ("--seed", "-1"),
        ("--engine", "steam"),
    ],
)
def test_an_illegal_option_is_named(option: str, value: str, complaint: Complaint) -> None:
    assert option in complaint("run", option, value)


def test_two_budgets_are_bad_input(complaint: Complaint) -> None:
    printed = complaint("run", "--time", "1s", "--actions", "10")
    assert "--time" in printed
    assert "--actions" in printed


def test_an_unknown_engine_is_told_the_known_ones(complaint: Complaint) -> None:
    printed = complaint("run", "--engine", "steam")
    assert "random" in printed
    assert "stateful" in printed


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("run --target refernce", "reference"),
        ("run --target jemaloc", "jemalloc"),
        ("run --target reference+stale-limit", "stale-limit-after-large"),
        ("run --engine rendom", "random"),
        ("run --without alocate_node", "allocate_node"),
        ("bugs stale-limit-after", "stale-limit-after-large"),
    ],
)
def test_a_name_that_is_nearly_right_is_put_right(
    arguments: str, meant: str, complaint: Complaint
) -> None:
    assert f"; did you mean `{meant}`?" in complaint(*arguments.split())


def test_names_that_are_many_are_not_all_told(complaint: Complaint) -> None:
    assert "`gcfuzz help protocol` lists them" in complaint("run", "--without", "xyz")
    assert len(complaint("run", "--without", "xyz")) < 100


def test_an_unknown_target_is_named(complaint: Complaint) -> None:
    assert "'boehm'" in complaint("run", "--target", "boehm")


def test_an_unknown_bug_is_named_with_those_of_its_host(complaint: Complaint) -> None:
    printed = complaint("run", "--target", "reference-jemalloc+typo")
    assert "'typo'" in printed
    of_host = [bug.id for bug in KNOWN_BUGS.values() if bug.host == "reference-jemalloc"]
    assert [bug for bug in KNOWN_BUGS if bug in printed] == of_host


def test_an_empty_target_is_bad_input(complaint: Complaint) -> None:
    assert "target" in complaint("run", "--actions", "10", "--target", "")


def test_a_bug_planted_twice_is_bad_input(failing: str, complaint: Complaint) -> None:
    assert BUG in complaint("replay", failing, "--target", f"reference+{BUG}+{BUG}")


def test_an_unknown_command_is_named(complaint: Complaint) -> None:
    assert "'fuzz'" in complaint("fuzz")


def test_a_file_in_the_corpus_folder_s_place_is_bad_input(complaint: Complaint) -> None:
    Path("taken").write_text("")
    assert "taken: cannot be the corpus folder" in complaint("run", "--corpus", "taken")


def test_by_default_failures_are_saved_in_a_folder_that_git_ignores() -> None:
    assert run_command_line(["run", "--actions", "500", "--seed", "1", *PLANTED]) == MISMATCH
    (folder,) = Path().iterdir()
    assert folder.name == "gcfuzz-failures"
    assert (folder / ".gitignore").read_text() == "*\n"
    assert [*folder.glob("*.jsonl")]


def test_a_folder_that_the_user_named_or_created_gets_no_gitignore() -> None:
    Path("gcfuzz-failures").mkdir()
    for corpus in ([], ["--corpus", "mine"]):
        assert run_command_line(["run", "--actions", "10", "--seed", "1", *corpus]) == CLEAN
    assert [*Path().rglob(".gitignore")] == []


def test_a_corpus_folder_inside_a_file_is_bad_input(failing: str, complaint: Complaint) -> None:
    folder = f"{failing}/corpus"
    assert folder in complaint(
        "reduce", failing, "--target", f"reference+{BUG}", "--corpus", folder
    )


def test_a_summary_that_cannot_be_written_is_bad_input(complaint: Complaint) -> None:
    assert "missing/s.json" in complaint("run", "--summary", "missing/s.json")


def test_a_folder_in_the_summary_s_place_is_bad_input(complaint: Complaint) -> None:
    Path("folder").mkdir()
    assert "folder" in complaint("run", "--summary", "folder")


# What cannot be replayed.


@pytest.mark.parametrize("command", ["replay", "reduce"])
def test_a_file_that_is_not_there_is_named(command: str, complaint: Complaint) -> None:
    assert "nothing.jsonl" in complaint(command, "nothing.jsonl")


def test_replaying_nothing_is_bad_input(complaint: Complaint) -> None:
    assert "FILE|DIR" in complaint("replay")


def test_an_empty_folder_has_nothing_to_replay(complaint: Complaint) -> None:
    Path("empty").mkdir()
    assert "empty: the folder has no traces" in complaint("replay", "empty")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "broken.jsonl"),
        ("hello\n", "broken.jsonl:1"),
        (ENABLE, "broken.jsonl:1"),
        ('{"gcfuzz": 1, "target": "reference"}\n', "broken.jsonl:1"),
        ('{"gcfuzz": 3, "target": "reference"}\n', "broken.jsonl:1"),
        (HEADER + ENABLE + '{"do": "collect', "broken.jsonl:3"),
        (HEADER + ENABLE + '{"do": "dance"}\n', "broken.jsonl:3"),
        (HEADER + '{"do": "free", "root": 0, "twice": true}\n', "broken.jsonl:2"),
        (HEADER + '{"do": "free", "root": "0"}\n', "broken.jsonl:2"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "reduce"])
def test_a_broken_file_is_named_with_the_line(
    command: str, content: str, place: str, complaint: Complaint
) -> None:
    Path("broken.jsonl").write_text(content)
    assert complaint(command, "broken.jsonl").startswith(f"gcfuzz: {place}: ")


def test_a_file_that_is_no_text_is_bad_input(complaint: Complaint) -> None:
    Path("binary.jsonl").write_bytes(b"\xff\xfe\x00")
    assert "binary.jsonl: not a text file" in complaint("replay", "binary.jsonl")


def test_an_action_that_is_illegal_where_it_stands_is_named(complaint: Complaint) -> None:
    Path("illegal.jsonl").write_text(HEADER + ENABLE + '{"do": "free", "root": 0}\n')
    assert complaint("replay", "illegal.jsonl").startswith("gcfuzz: illegal.jsonl:3: free: ")


@pytest.mark.parametrize("nursery_bytes", BAD_SIZES)
def test_an_illegal_nursery_is_told_the_legal_ones(
    nursery_bytes: int, complaint: Complaint
) -> None:
    header = HEADER.replace("}", f', "config": {{"nursery_bytes": {nursery_bytes}}}}}')
    Path("nursery.jsonl").write_text(header)
    printed = complaint("replay", "nursery.jsonl")
    assert printed.startswith(f"gcfuzz: nursery.jsonl:1: nursery_bytes is {nursery_bytes}; ")
    assert "a multiple of 8 from 64 to 65536" in printed


@pytest.mark.parametrize("period_bytes", BAD_SIZES)
def test_an_illegal_period_is_told_the_legal_ones(period_bytes: int, complaint: Complaint) -> None:
    Path("period.jsonl").write_text(HEADER + ENABLE.replace("8", str(period_bytes)))
    printed = complaint("replay", "period.jsonl")
    assert printed.startswith("gcfuzz: period.jsonl:2: enable_sampling: ")
    assert f"period_bytes is {period_bytes}; it must be a multiple of 8 from 8 to" in printed


def test_a_header_s_unknown_target_is_named(complaint: Complaint) -> None:
    Path("other.jsonl").write_text(HEADER.replace("reference", "boehm"))
    assert "'boehm'" in complaint("replay", "other.jsonl")


def test_a_broken_file_outweighs_a_failure(failing: str) -> None:
    Path("zz-broken.jsonl").write_text("hello\n")
    assert run_command_line(["replay", ".", "--target", f"reference+{BUG}"]) == BAD_INPUT


# replay


def test_the_shipped_traces_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, trace in shipped_traces().items():
        (tmp_path / name).write_text(dumps(trace))
    assert run_command_line(["replay", "."]) == CLEAN
    assert f"{len(shipped_traces())} passed, 0 failed" in capsys.readouterr().out


def test_a_trace_fails_where_its_bug_is_planted(failing: str) -> None:
    assert run_command_line(["replay", failing, "--target", f"reference+{BUG}"]) == MISMATCH


def test_a_trace_runs_on_the_target_of_its_header() -> None:
    Path("planted.jsonl").write_text(FAILING.replace("reference", f"reference+{BUG}"))
    assert run_command_line(["replay", "planted.jsonl"]) == MISMATCH


def test_the_option_outweighs_the_header_s_target() -> None:
    Path("planted.jsonl").write_text(FAILING.replace("reference", f"reference+{BUG}"))
    assert run_command_line(["replay", "planted.jsonl", "--target", "reference"]) == CLEAN


def test_all_traces_are_replayed_after_one_that_failed(
    failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("passing.jsonl").write_text(HEADER)
    planted = ["--target", f"reference+{BUG}"]
    assert run_command_line(["replay", failing, "passing.jsonl", *planted]) == MISMATCH
    assert "1 passed, 1 failed" in capsys.readouterr().out


def test_a_folder_is_replayed_to_its_end_whatever_its_files_are(
    failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("0-broken.jsonl").write_text("hello\n")
    Path("1-other.jsonl").write_text(HEADER.replace("reference", "boehm"))
    Path("2-folder.jsonl").mkdir()
    Path("passing.jsonl").write_text(HEADER)
    assert run_command_line(["replay", "."]) == BAD_INPUT
    printed = capsys.readouterr()
    assert "2 passed, 0 failed, 3 could not be replayed" in printed.out
    assert [line.split(":")[1] for line in printed.err.splitlines()] == [
        " 0-broken.jsonl",
        " 1-other.jsonl",
        " 2-folder.jsonl",
    ]


def test_what_is_wrong_with_the_target_is_said_once(failing: str, complaint: Complaint) -> None:
    Path("passing.jsonl").write_text(HEADER)
    assert "cannot be started" in complaint("replay", ".", "--command", "./missing")


# reduce


def test_reducing_saves_a_shorter_trace_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    padded = FAILING + '{"do": "collect_full"}\n{"do": "check_heap"}\n'
    padded = padded.replace(ENABLE, '{"do": "allocate_string", "length": 30}\n' * 9 + ENABLE)
    Path("padded.jsonl").write_text(padded)
    planted = ["--target", f"reference+{BUG}"]
    assert run_command_line(["reduce", "padded.jsonl", *planted, "--corpus", "out"]) == MISMATCH
    (saved,) = Path("out").iterdir()
    assert len(saved.read_text().splitlines()) == len(FAILING.splitlines())
    assert run_command_line(["replay", str(saved)]) == MISMATCH


def test_reducing_saves_beside_the_file() -> None:
    Path("finds").mkdir()
    Path("finds/padded.jsonl").write_text(FAILING + '{"do": "collect_full"}\n')
    assert run_command_line(["reduce", "finds/padded.jsonl", *PLANTED]) == MISMATCH
    assert len(list(Path("finds").iterdir())) == 2
    assert [path.name for path in Path().iterdir()] == ["finds"]


def test_reducing_once_more_says_what_it_was_reduced_from_at_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = '"found": {"oracle": "o", "message": "m", "engine": "stateful", "reduced_from": 390}'
    padded = FAILING + '{"do": "collect_full"}\n'
    Path("padded.jsonl").write_text(padded.replace("}\n", f", {found}}}\n", 1))
    assert run_command_line(["reduce", "padded.jsonl", *PLANTED, "--corpus", "out"]) == MISMATCH
    assert "by the stateful engine, reduced from 390 actions" in capsys.readouterr().out
    (saved,) = Path("out").iterdir()
    assert '"reduced_from": 390' in saved.read_text()


def test_reducing_leaves_the_given_file_as_it_was(failing: str) -> None:
    run_command_line(["reduce", failing, "--target", f"reference+{BUG}", "--corpus", "."])
    assert Path(failing).read_text() == FAILING


def test_a_trace_that_passes_has_nothing_to_reduce(
    failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["reduce", failing]) == CLEAN
    assert "nothing to reduce" in capsys.readouterr().out
    assert [path.name for path in Path().iterdir()] == [failing]


def test_a_failure_that_is_not_seen_again_is_inconclusive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flaky = KnownBug("flaky", "our own", "crashes once", ("heap",), 1, {"sampling": FailsOnce})
    monkeypatch.setitem(KNOWN_BUGS, "flaky", flaky)
    monkeypatch.setattr(FailsOnce, "crashed", False)
    Path("flaky.jsonl").write_text(HEADER + ENABLE)
    code = run_command_line(["reduce", "flaky.jsonl", "--target", "reference+flaky"])
    assert code == INCONCLUSIVE
    assert "did NOT reproduce in 1 run)" in capsys.readouterr().out
    assert Path("flaky.jsonl").read_text() == HEADER + ENABLE


# The harness's own bugs.


def test_a_bug_of_the_harness_says_so(
    failing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    misplaced = KnownBug("misplaced", "our own", "no such part", (), 1, {"engine_room": Sampling})
    monkeypatch.setitem(KNOWN_BUGS, "misplaced", misplaced)
    assert run_command_line(["replay", failing, "--target", "reference+misplaced"]) == HARNESS_BUG
    assert "gcfuzz: this is a bug of gcfuzz itself" in capsys.readouterr().err


def test_a_session_whose_self_check_fails_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = {name: trace for name, trace in shipped_traces().items() if BUG not in name}
    monkeypatch.setattr("fuzz.sessions.selfcheck.shipped_traces", lambda: others)
    assert run_command_line(["run", "--actions", "10"]) == HARNESS_BUG
    assert capsys.readouterr().err == (
        f"gcfuzz: the harness is broken: no trace for the planted bugs {BUG}\n"
    )


def test_a_self_check_that_misses_a_bug_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    header = trace_killing(BUG).header
    monkeypatch.setattr(
        "fuzz.sessions.selfcheck.shipped_traces", lambda: {"blunt": Trace(header, ())}
    )
    assert run_command_line(["run", "--actions", "10"]) == HARNESS_BUG
    assert f"the planted bug {BUG} was caught by no oracle in blunt" in capsys.readouterr().err


def test_a_self_check_tells_a_broken_reference_from_a_broken_oracle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = attrs.evolve(ReferenceTarget.PARTS, **planted_parts([BUG]))
    monkeypatch.setattr(ReferenceTarget, "PARTS", broken)
    assert run_command_line(["run", "--actions", "10"]) == HARNESS_BUG
    printed = capsys.readouterr().err
    assert printed.startswith("gcfuzz: the reference collector is broken: it fails its own trace ")
    assert "no bug planted: " in printed


# The process.


def test_a_process_exits_with_0_when_clean(failing: str) -> None:
    assert exit_code("replay", failing) == CLEAN


def test_a_process_exits_with_1_after_a_mismatch(failing: str) -> None:
    assert exit_code("replay", failing, "--target", f"reference+{BUG}") == MISMATCH


def test_a_reader_that_leaves_is_no_mismatch(failing: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert exit_code("replay", failing, stdout=theirs) != MISMATCH
    finally:
        os.close(theirs)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_summary_on_a_full_disk_is_bad_input(complaint: Complaint) -> None:
    assert "/dev/full" in complaint("run", "--actions", "10", "--summary", "/dev/full")


# What the commands say of themselves.


def test_targets_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["targets"]) == CLEAN
    printed = capsys.readouterr().out
    assert [each.name for each in SETTINGS if each.name not in printed] == []


def test_targets_lists_what_settings_a_kin_of_the_reference_has_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["targets"]) == CLEAN
    printed = capsys.readouterr().out
    for name in (name for name in REFERENCES if name != REFERENCE):
        (part,) = re.findall(rf"^{name}: (.*?)\n\n", printed, re.MULTILINE | re.DOTALL)
        listed = set(re.findall(r"^(\w+) .* \d+ *$", part, re.MULTILINE))
        settings = make_target(name).start({}).settings
        assert listed == {each.name for each in settings if each not in SETTINGS}, name


def test_targets_names_the_settings_that_a_kin_does_not_share(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["targets"]) == CLEAN
    assert "the settings of reference but pin_while_sampling, and" in capsys.readouterr().out


def test_targets_lists_every_bug_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["targets"]) == CLEAN
    words = " ".join(capsys.readouterr().out.split())
    bugs = KNOWN_BUGS.values()
    assert [bug.id for bug in bugs if f"{bug.id} {bug.what} {bug.seen_in}" not in words] == []


def test_a_path_is_refused_where_it_makes_no_difference(complaint: Complaint) -> None:
    assert complaint("targets", "--java", "jdk") == "gcfuzz: --java needs --available\n"


@pytest.mark.slow
def test_what_is_available_is_told_with_its_version_or_with_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    python = os.environ.get("GCFUZZ_PROFILERS")
    where = ["--python", python] if python else []
    assert run_command_line(["targets", "--available", *where]) == CLEAN
    _, *rows = capsys.readouterr().out.splitlines()
    told = dict(row.split(maxsplit=1) for row in rows)
    assert re.fullmatch("none .* install --target DIR .*", told.pop("incminimark").strip())
    assert "hotspot" in told
    for profiler in ("ddtrace", "scalene"):
        hint = r"none .*: pip install 'gcfuzz\[python-profilers\]', or name a Python .*--python"
        version = rf"(?i:{profiler}) \d.*"
        assert re.fullmatch(version if python else f"{version}|{hint}", told[profiler].strip())
    for rest in told.values():
        assert re.fullmatch(r"\S.* \d+\.\d+\S*|none .*(apt|npm|pip) install .*", rest.strip())


@pytest.mark.parametrize("command", ["run", "replay", "profile", "bugs", "probes"])
def test_no_default_is_in_parentheses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line([command, "--help"])
    assert "default: (" not in " ".join(capsys.readouterr().out.split())


def test_bugs_says_first_how_much_there_is_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["bugs", BUG, "--seeds", "1"]) == CLEAN
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == "1 bug, 1 seed each: 1 hunt, each of 20,000 actions at most"


@pytest.mark.slow
def test_probes_counts_what_was_reached_and_shows_how(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--target", "reference-tcmalloc", "--actions", "40"]
    assert run_command_line(["probes", *few]) in {CLEAN, INCONCLUSIVE}
    _, *rows, last = capsys.readouterr().out.splitlines()
    assert re.search(r"^block_sampled +[1-9]", "\n".join(rows), re.MULTILINE)
    assert any(row.strip().startswith("malloc") for row in rows)
    assert re.fullmatch(r"\d+ of \d+ probes reached in 40 actions", last)


@pytest.mark.parametrize("command", ["run", "replay", "reduce", "targets"])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_each_command_has_help(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line([command, option]) == CLEAN
    assert capsys.readouterr().out.startswith(f"Usage: gcfuzz {command}")


def test_the_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["--help"]) == CLEAN
    printed = capsys.readouterr().out
    assert all(command in printed for command in ("run", "replay", "reduce", "targets"))


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
def test_too_few_open_files_are_told_in_one_line(command: str) -> None:
    words = f"ulimit -n 8; exec {sys.executable} -m fuzz {command}"
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    ran = subprocess.run(
        ["sh", "-c", words], env=environment, check=False, capture_output=True, text=True
    )
    assert ran.returncode == BAD_INPUT, ran.stderr
    assert re.fullmatch(r"gcfuzz: .*Too many open files.*\n", ran.stderr)
