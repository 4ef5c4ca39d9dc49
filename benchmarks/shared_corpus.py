"""Two sessions at a time on one corpus, killed at random: what was printed is there.

    python benchmarks/shared_corpus.py --pairs 40

Each session has two planted bugs to find. Some of them are killed, parent and workers, at a moment
drawn at random. Whatever a session printed that came to its end must be in the corpus afterwards,
and fail when it is replayed.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

TARGETS = (
    "reference+one-sample-per-object+sample-on-equality",
    "reference+sample-on-equality+one-sample-per-object",
)
KILLED_SHARE = 3
"""One session in so many is killed."""
LIFE_SECONDS_MAX = 4.0
"""And that is done within so many seconds."""


def start(folder: Path, number: int) -> subprocess.Popen[str]:
    """The session of that number, in a process group of its own."""
    words = ["--target", TARGETS[number % 2], "--seed", str(number % 8), "--actions", "8000"]
    return subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-m", "fuzz", "run", "--workers", "2", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill(session: subprocess.Popen[str]) -> None:
    """Kill the parent; its workers follow it."""
    os.killpg(session.pid, signal.SIGKILL)


def run_two(folder: Path, number: int, chance: random.Random) -> tuple[set[str], int]:
    """Two sessions side by side; the files that they named, and how many were killed."""
    sessions = [start(folder, number + each) for each in range(2)]
    killed = 0
    for session in sessions:
        if chance.randrange(KILLED_SHARE) == 0:
            time.sleep(chance.random() * LIFE_SECONDS_MAX)
            kill(session)
            killed += 1
    printed = [session.communicate()[0] for session in sessions]
    named = {each for text in printed for each in re.findall(r"gcfuzz replay (\S+)", text)}
    return named, killed


def fails_again(folder: Path, trace: str) -> bool:
    """Whether a find that was reported is there, and fails."""
    command = [sys.executable, "-m", "fuzz", "replay", trace]
    ran = subprocess.run(command, cwd=folder, capture_output=True, check=False)  # noqa: S603
    return ran.returncode == 1


@click.command()
@click.option("--pairs", type=click.IntRange(min=1), default=40, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(pairs: int, seed: int) -> None:
    """Run so many pairs of sessions, one after another."""
    chance = random.Random(seed)  # noqa: S311 - not secret
    named: set[str] = set()
    killed = 0
    with TemporaryDirectory() as place:
        for pair in range(pairs):
            found, died = run_two(Path(place), 2 * pair, chance)
            named |= found
            killed += died
        lost = sorted(trace for trace in named if not fails_again(Path(place), trace))
    print(f"{2 * pairs} sessions, {killed} killed, {len(named)} finds reported, {len(lost)} lost")
    for trace in lost:
        print(f"lost {trace}")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
