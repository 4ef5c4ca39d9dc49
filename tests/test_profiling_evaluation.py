"""The evaluation of the profiler: a tiny one has all plots, and tables that say what can be so."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
EVIDENCE = ROOT / "docs" / "evidence"
PLOTS = {"cost-of-a-sample", "estimates", "overhead-by-period"}
PERIODS = ["64 KiB", "16 KiB", "4 KiB", "1 KiB", "256 B"]

Table = dict[str, list[str]]
"""The cells of each row, by what stands in its first."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs apt install valgrind"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence")
    subprocess.run(
        [sys.executable, str(ROOT / "tests" / "tiny_profiling_evaluation.py"), str(folder)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), str(ROOT)])},
    )
    return folder


def sections(page: str) -> dict[str, Table]:
    """The table of each section, by its heading."""
    found = {}
    for section in page.split("\n## ")[1:]:
        rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
        # The heading's first cell may be empty, and so is not there any more.
        found[section.partition("\n")[0]] = {row[0]: row[1:] for row in rows[2:]}
    return found


def table(folder: Path, heading: str) -> Table:
    """The table of the section whose heading begins so."""
    found = sections((folder / "profiling.md").read_text())
    return next(rows for name, rows in found.items() if name.startswith(heading))


def first_figure(cell: str) -> float:
    return float(re.match(r"[\d,.]+", cell)[0].replace(",", ""))


def figures(folder: Path, heading: str, row: str) -> list[float]:
    """The first figure of each cell."""
    return [first_figure(cell) for cell in table(folder, heading)[row]]


def test_it_writes_every_plot_as_a_picture(folder: Path) -> None:
    plots = {path.stem: ET.parse(path) for path in (folder / "profiling").iterdir()}
    assert plots.keys() == PLOTS
    assert {plot.getroot().tag for plot in plots.values()} == {"{http://www.w3.org/2000/svg}svg"}


def test_it_shows_every_plot_on_its_page(folder: Path) -> None:
    shown = re.findall(r"!\[.+\]\(profiling/(.+)\.svg\)", (folder / "profiling.md").read_text())
    assert set(shown) == PLOTS


def test_a_run_without_a_recorder_repeats_itself(folder: Path) -> None:
    again = figures(folder, "Overhead by sampling", "no recorder, again")
    assert again == pytest.approx([1, 1], abs=0.005)


def test_the_shorter_the_period_the_more_instructions(folder: Path) -> None:
    ratios = [figures(folder, "Overhead by sampling", period) for period in PERIODS[2:]]
    assert min(ratios[0]) > 1
    assert all(list(column) == sorted(column) for column in zip(*ratios, strict=True))


def test_the_shorter_the_period_the_larger_the_recording(folder: Path) -> None:
    sizes = [figures(folder, "How large", period) for period in PERIODS]
    assert all(list(column) == sorted(column) for column in zip(*sizes, strict=True))


def test_a_forecast_is_never_less_than_what_is_recorded(folder: Path) -> None:
    cells = [cell for row in table(folder, "How large").values() for cell in row]
    assert all(float(cell.partition("(")[2].rstrip(")")) >= 1 for cell in cells)


def test_the_default_period_has_a_rate_of_samples_and_an_overhead(folder: Path) -> None:
    for cells in table(folder, "The headline").values():
        assert all(first_figure(cell) > 0 for cell in cells[:2])


def test_a_sample_costs_instructions_whatever_it_is_of(folder: Path) -> None:
    for cells in table(folder, "Allocation against time").values():
        assert all(first_figure(cell) > 1000 for cell in cells[:2])


def test_the_case_is_better_afterwards(folder: Path) -> None:
    before, after = table(folder, "A case study").values()
    assert first_figure(after[0]) < first_figure(before[0])
    assert first_figure(after[2]) < first_figure(before[2])


def test_twice_the_rounds_allocate_twice_the_bytes(folder: Path) -> None:
    allocated = table(folder, "What the workloads")
    assert float(allocated["two"][1]) == pytest.approx(2 * float(allocated["one"][1]), abs=2)


def test_most_estimates_lie_within_their_bounds(folder: Path) -> None:
    for cells in table(folder, "Estimate").values():
        held, judged = map(int, re.match(r"(\d+) of (\d+)", cells[0]).groups())
        assert judged == 16  # Two workloads, four types, two seeds.
        assert held >= 11  # With new seeds, fewer would with a probability of 0.00008 each.


def test_fixed_distances_in_step_with_a_loop_are_wrong(folder: Path) -> None:
    *_, fixed = table(folder, "Estimate")["2,272 B"]
    assert first_figure(fixed) >= 50


def test_the_page_in_the_documentation_is_the_command_s(folder: Path) -> None:
    written, kept = ((each / "profiling.md").read_text() for each in (folder, EVIDENCE))
    assert list(sections(kept)) == list(sections(written))
