"""CI says at once, and in words, what a machine lacks; the script for other people's CI works."""

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


def test_all_that_is_missing_is_said_before_anything_is_run(tmp_path: Path) -> None:
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
    needs, rest = [line.partition(": needs ")[2] for line in ran.stderr.splitlines()], ran.stdout
    assert ran.returncode == BAD_INPUT
    assert rest == ""
    assert [each.split(",")[0].split(":")[0] for each in needs] == [
        "CPython 3.11 or newer",
        "Python 2.7 with pip",
        "root",
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["bin"]


def test_tox_hands_on_what_the_script_exports_for_tests() -> None:
    script = (ROOT / ".ci/run").read_text()
    exported = re.findall(r"^export (GCFUZZ_\w+|NODE_PATH)", script, re.MULTILINE)
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    handed = tox["testenv"]["pass_env"].split() + tox["testenv"]["set_env"].split()
    assert set(exported) - set(handed) == set()


@pytest.mark.slow
def test_the_script_for_other_people_s_ci_keeps_what_it_finds_and_makes_pages(
    tmp_path: Path,
) -> None:
    script = re.search(r"```sh gcfuzz.sh\n(.*?)```", (ROOT / "docs/ci.md").read_text(), re.DOTALL)
    assert script
    (tmp_path / "gcfuzz.sh").write_text(script[1])
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(fuzz.__file__).parents[1]),
    }
    (tmp_path / "corpus").mkdir()
    find = '{"gcfuzz": 2, "target": "mine"}\n{"do": "disable_sampling"}\n'
    (tmp_path / "corpus" / "find.jsonl").write_text(find)
    for target, pages in (("reference+disable-before-enable", ["find.html"]), ("reference", [])):
        command = ["sh", "gcfuzz.sh", f"python -m fuzz.targets {target}", "1s"]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        )
        assert f"passed, {len(pages)} failed" in ran.stdout, ran.stderr
        assert (ran.returncode == MISMATCH) == bool(pages)
        assert [each.name for each in (tmp_path / "report").glob("find.html")] == pages
        assert (tmp_path / "report" / "summary.json").is_file()
