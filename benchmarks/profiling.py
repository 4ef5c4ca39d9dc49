"""What profiling costs, and how right it is: `python benchmarks/profiling.py`.

It runs the workloads again and again, and writes a page with tables and its plots. Needs the extra
`evaluation`. With one workload in one repetition it takes a minute, with all of them twenty.
"""

from __future__ import annotations

from pathlib import Path

import click
from profiling_page import page
from profiling_plots import draw_all
from profiling_runs import Evaluation, Workload, evaluate

from gcmodel.workloads import WORKLOADS

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
NAME = "profiling"


def write(evaluation: Evaluation, folder: Path) -> None:
    """Write the page, and the folder of its plots beside it. Raises OSError."""
    plots = folder / NAME
    plots.mkdir(parents=True, exist_ok=True)
    draw_all(evaluation, plots)
    (folder / f"{NAME}.md").write_text(page(evaluation, NAME), encoding="utf-8")


@click.command()
@click.option(
    "--workload",
    "names",
    type=click.Choice(list(WORKLOADS)),
    multiple=True,
    default=list(WORKLOADS),
    show_default=True,
    help="What to run; may be given several times.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=EVIDENCE,
    help="The folder for the page and its plots.",
)
def main(names: tuple[str, ...], repeats: int, seeds: int, output: Path) -> None:
    """Measure, and write the page and its plots."""
    workloads = [Workload(name, WORKLOADS[name]) for name in names]
    write(evaluate(workloads, repeats=repeats, seeds=seeds), output)


if __name__ == "__main__":
    main()
