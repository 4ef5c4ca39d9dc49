"""CI reports at once what a machine lacks, and the script for the users' CI works."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import completed

import fuzz
from fuzz.nights.failure_history import NAME, read
from fuzz.terminal.commands.cli import run_command_line

ROOT = Path(__file__).parents[1]
CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
TOOLS = ("bash", "dirname", "id", "mktemp", "rm", "timeout")


def test_ci_reports_all_that_is_missing_before_it_runs_anything(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(str(shutil.which(tool)))
    (programs / "ldconfig").symlink_to("/bin/true")
    ran = completed(
        [str(programs / "bash"), ".ci/run"],
        cwd=ROOT,
        env={"PATH": str(programs), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        check=False,
    )
    needs = [line.partition(": needs ")[2] for line in ran.stderr.splitlines()]
    assert ran.returncode == BAD_INPUT
    assert ran.stdout == ""
    assert [each.split(",")[0].split(":")[0] for each in needs] == [
        "CPython 3.11 or newer",
        "Python 2.7 with pip",
        "root",
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["bin"]


def test_tox_passes_on_the_variables_that_ci_exports_for_tests() -> None:
    script = "".join((ROOT / ".ci" / name).read_text() for name in ("setup", "run", "night"))
    exported = re.findall(r"^export (GCFUZZ_\w+|NODE_PATH)", script, re.MULTILINE)
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    passed_on = tox["testenv"]["pass_env"].split() + tox["testenv"]["set_env"].split()
    assert set(exported) <= set(passed_on)


def ran_script(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the page on CI."""
    page = (ROOT / "docs/ci.md").read_text()
    script = re.search(rf"```sh {name}\n(.*?)```", page, re.DOTALL)
    assert script
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(fuzz.__file__).parents[1]),
    }
    return completed(
        ["sh", "-c", script[1], name, *arguments], cwd=folder, env=environment, check=False
    )


@pytest.mark.slow
def test_the_script_for_the_users_ci_keeps_failures_and_makes_pages(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    trace = '{"gcfuzz": 2, "target": "mine"}\n{"do": "disable_sampling"}\n'
    (tmp_path / "corpus" / "saved.jsonl").write_text(trace)
    for target, code in (("reference+disable-before-enable", MISMATCH), ("reference", CLEAN)):
        ran = ran_script(tmp_path, "gcfuzz.sh", f"python -m fuzz.targets {target}", "5s")
        assert f"passed, {code} failed" in ran.stdout, ran.stderr
        assert ran.returncode == code
        assert bool([*(tmp_path / "report" / "night").glob("*.html")])


@pytest.mark.night
def test_the_script_for_the_users_ci_is_clean_again_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        ran = ran_script(tmp_path, "gcfuzz.sh", "python -m fuzz.targets reference", "5s")
        assert ran.returncode == CLEAN, ran.stderr


@pytest.mark.slow
def test_the_script_for_the_users_ci_fails_on_a_failure_until_it_is_muted(tmp_path: Path) -> None:
    program = f"{sys.executable} -m fuzz.targets reference+sample-on-equality"
    corpus = tmp_path / "corpus"
    plan = ["--actions", "2000", "-x", "--seed", "1", "--corpus", str(corpus)]
    assert run_command_line(["run", "--command", program, *plan]) == MISMATCH
    assert ran_script(tmp_path, "gcfuzz.sh", program, "1s").returncode == MISMATCH
    known = read(corpus / NAME).lives().values()
    mute = ["--mute-until", "2999-01-31", *{each.known.cause_id for each in known}]
    assert run_command_line(["triage", str(corpus), *mute]) == CLEAN
    # The session in the script may find another cause, and that is not muted. It may do nothing.
    muted = ran_script(tmp_path, "gcfuzz.sh", program, "1s")
    assert "0 passed, 0 failed" in muted.stdout
    assert (muted.returncode == MISMATCH) != (" 0 new, 0 back, 0 open, " in muted.stdout)


@pytest.mark.parametrize(
    ("new", "code"),
    [
        pytest.param("", CLEAN, marks=pytest.mark.night),
        pytest.param("no-samples", MISMATCH, marks=pytest.mark.slow),
        pytest.param("no-free", MISMATCH, marks=pytest.mark.night),
    ],
)
def test_a_pull_request_that_promises_less_fails(new: str, code: int, tmp_path: Path) -> None:
    counter = f"{sys.executable} {ROOT / 'tests/fuzz/terminal/faulty_counter.py'}"
    ran = ran_script(tmp_path, "gate.sh", counter, f"{counter} {new}", "1s")
    assert ran.returncode == code, ran.stdout


@pytest.mark.slow
def test_the_script_for_the_night_keeps_its_failures_and_its_history(tmp_path: Path) -> None:
    program = f"{sys.executable} -m fuzz.targets reference+one-sample-per-object"
    for part in (1, 2):
        options = ["--command", program, "--actions", "600", "--seed", "2", "-x"]
        where = ["--part", f"{part}/2", "--corpus", str(tmp_path / "parts" / str(part))]
        assert run_command_line(["run", *options, *where]) == MISMATCH
    first = ran_script(tmp_path, "night.sh", program).stdout
    shutil.rmtree(tmp_path / "whole")
    second = ran_script(tmp_path, "night.sh", program).stdout
    assert [*(tmp_path / "corpus").glob("*.jsonl")]
    [new] = re.findall(r"night.html: ([1-9]\d*) new, 0 back, ", first)
    # The second night has the sessions of the first one: it is the same night, made again.
    assert f"night.html: {new} new, 0 back, " in second
    assert (tmp_path / "report" / "night.xml").is_file()
