"""CI reports at once what a machine lacks, and the script for the users' CI works."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz

ROOT = Path(__file__).parents[1]
MISMATCH, BAD_INPUT = 1, 2
TOOLS = ("bash", "dirname", "id", "mktemp", "rm", "timeout")


def test_ci_reports_all_that_is_missing_before_it_runs_anything(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(str(shutil.which(tool)))
    (programs / "ldconfig").symlink_to("/bin/true")
    ran = subprocess.run(
        [str(programs / "bash"), ".ci/run"],
        cwd=ROOT,
        env={"PATH": str(programs), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
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
    script = (ROOT / ".ci/run").read_text()
    exported = re.findall(r"^export (GCFUZZ_\w+|NODE_PATH)", script, re.MULTILINE)
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    passed_on = tox["testenv"]["pass_env"].split() + tox["testenv"]["set_env"].split()
    assert set(exported) <= set(passed_on)


@pytest.mark.slow
def test_the_script_for_the_users_ci_keeps_failures_and_makes_pages(tmp_path: Path) -> None:
    script = re.search(r"```sh gcfuzz.sh\n(.*?)```", (ROOT / "docs/ci.md").read_text(), re.DOTALL)
    assert script
    (tmp_path / "gcfuzz.sh").write_text(script[1])
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(fuzz.__file__).parents[1]),
    }
    (tmp_path / "corpus").mkdir()
    trace = '{"gcfuzz": 2, "target": "mine"}\n{"do": "disable_sampling"}\n'
    (tmp_path / "corpus" / "saved.jsonl").write_text(trace)
    for target, pages in (("reference+disable-before-enable", ["saved.html"]), ("reference", [])):
        command = ["sh", "gcfuzz.sh", f"python -m fuzz.targets {target}", "1s"]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        )
        assert f"passed, {len(pages)} failed" in ran.stdout, ran.stderr
        assert (ran.returncode == MISMATCH) == bool(pages)
        assert [each.name for each in (tmp_path / "report").glob("saved.html")] == pages
        assert (tmp_path / "report" / "summary.json").is_file()
