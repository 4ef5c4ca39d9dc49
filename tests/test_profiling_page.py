"""The page on profiles: its command profiles its script, and prints its output."""

import re
import shlex
from pathlib import Path

import pytest
from modules import ran_module

from fuzz.profiling.outputs import FORMATS
from gcmodel.workloads import WORKLOADS

PAGE = (Path(__file__).parents[1] / "docs" / "profiling.md").read_text()


def block(language: str, containing: str) -> str:
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return next(each for each in blocks if containing in each)


@pytest.mark.slow
def test_the_command_prints_the_output_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(block("python", "def main(heap)"))
    _, *arguments = shlex.split(block("sh", "server.py"))
    ran = ran_module(tmp_path, "fuzz", *arguments)
    assert ran.returncode == 0
    assert block("text", "server.py: ") in ran.stdout


@pytest.mark.parametrize("name", [*WORKLOADS, *FORMATS])
def test_the_page_names_every_workload_and_every_format(name: str) -> None:
    assert f"`{name}`" in PAGE
