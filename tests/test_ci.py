"""CI says at once, and in words, what a machine lacks."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
BAD_INPUT = 2
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
