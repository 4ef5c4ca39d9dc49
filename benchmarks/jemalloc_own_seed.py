"""jemalloc left alone: every sampling decision foretold from where a thread's state lies.

    python benchmarks/jemalloc_own_seed.py [ROUNDS]

The target `jemalloc` sets each thread's generator. Here nothing is set: jemalloc seeds it with the
address of the thread's state, and that address is all that the prediction is told, beside the
calls and whether a block moved. The generator's other users are foretold too: a large block that is
not sampled is placed within a page (6 bits), and the ticker that counts calls draws how far it
counts next (6 bits). Each round is a new thread, with another mean distance. Exits with 1 if a
decision was wrong.
"""

from __future__ import annotations

import math
import os
import random
import sys
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from ctypes import addressof

import attrs

from fuzz.targets.allocators.jemalloc_driver import SIZE_CLASSES
from fuzz.targets.allocators.jemalloc_library import JemallocLibrary, ThreadSampler
from fuzz.targets.allocators.stock_commands import JEMALLOC_ENVIRONMENT

ROUNDS = 12
ACTIONS = 100_000
BLOCKS_MAX = 100
SMALL_BYTES_MAX = 14336
LG_BYTES_MAX = 22
TICKS = 1000
TICKS_OF_FIRST_SAMPLE = 4
# From jemalloc's src/ticker.c: how far a ticker counts next, in 61ths of a thousand.
TICKER_TABLE = (
    *(254, 211, 187, 169, 156, 144, 135, 127, 120, 113, 107, 102, 97, 93, 89, 85),
    *(81, 77, 74, 71, 68, 65, 62, 60, 57, 55, 53, 50, 48, 46, 44, 42),
    *(40, 39, 37, 35, 33, 32, 30, 29, 27, 26, 24, 23, 21, 20, 19, 18),
    *(16, 15, 14, 13, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
)


class Prediction:
    """What jemalloc's thread will do, from its address and the calls."""

    def __init__(self, address: int, lg_period: int) -> None:
        self._state = address
        self._lg_period = lg_period
        self._ticks_left = TICKS
        self._has_sampled = False
        self._until_bytes = self._distance()

    def _bits(self, count: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self._state >> (64 - count)

    def _distance(self) -> int:
        if self._lg_period == 0:
            return 1
        uniform = self._bits(53) / 2**53 or 1.0
        return int(math.log(uniform) / math.log(1 - 1 / 2**self._lg_period)) + 1

    def tick(self) -> None:
        """A call reached the arena."""
        self._ticks_left -= 1
        if self._ticks_left < 0:
            self._ticks_left = TICKS * TICKER_TABLE[self._bits(6)] // 61

    def is_due(self, size_bytes: int) -> bool:
        """Whether a block of so many usable bytes is sampled."""
        return size_bytes >= self._until_bytes

    def allocate(self, size_bytes: int, old: int | None, new: int) -> None:
        """Follow a call that made a block so large, at `new`; at `old` it was before, if it was."""
        is_due, moved = self.is_due(size_bytes), old != new
        if is_due and not self._has_sampled:
            self._has_sampled = True
            for _ in range(TICKS_OF_FIRST_SAMPLE):
                self.tick()
        if moved and not is_due and size_bytes > SMALL_BYTES_MAX:
            self._bits(6)
        self.tick()
        if moved and old is not None:
            self.tick()
        self._until_bytes = self._distance() if is_due else self._until_bytes - size_bytes


@attrs.define
class Score:
    """What came of the decisions."""

    decisions: int = 0
    samples: int = 0
    wrong: int = 0


def play(jemalloc: JemallocLibrary, number: int, score: Score) -> None:
    """One round, in the thread that calls, which is new to jemalloc."""
    source = random.Random(number)  # noqa: S311 - which calls to make
    prediction = Prediction(addressof(ThreadSampler(jemalloc).state), lg_period_of(number))
    blocks: list[int] = []
    for _ in range(ACTIONS):
        call = source.choice(("malloc", "calloc", "realloc", "free"))
        if len(blocks) == BLOCKS_MAX:
            call = "free"
        if call == "free":
            if blocks:
                jemalloc.free(blocks.pop(source.randrange(len(blocks))))
                prediction.tick()
            continue
        size_bytes = int(2 ** source.uniform(0, LG_BYTES_MAX))
        old = blocks.pop(source.randrange(len(blocks))) if blocks and call == "realloc" else None
        before = jemalloc.backtraces
        if old is not None:
            new = jemalloc.realloc(old, size_bytes)
        elif call == "calloc":
            new = jemalloc.calloc(1, size_bytes)
        else:
            new = jemalloc.malloc(size_bytes)
        blocks.append(new)
        class_bytes = SIZE_CLASSES[bisect_left(SIZE_CLASSES, size_bytes)]
        samples = jemalloc.backtraces - before
        score.decisions += 1
        score.samples += samples
        score.wrong += samples != prediction.is_due(class_bytes)
        prediction.allocate(class_bytes, old, new)
    for block in blocks:
        jemalloc.free(block)


def lg_period_of(number: int) -> int:
    """The rounds have one mean distance after another."""
    return 2 * (number % 12)


def main() -> None:
    """Play the rounds, and print what came of them."""
    if any(os.environ.get(name) != value for name, value in JEMALLOC_ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | JEMALLOC_ENVIRONMENT)  # noqa: S606 - this program
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    jemalloc = JemallocLibrary()
    total = Score()
    threads = []
    for number in range(rounds):
        # Each has a stack of its own: what is recorded under one for the first time costs ticks.
        jemalloc.stack = (0x1000 + number,)
        jemalloc.reset(lg_period_of(number))
        score = Score()
        # A thread that ended would leave its place, and so its seed, to the next.
        threads.append(ThreadPoolExecutor(max_workers=1))
        threads[-1].submit(play, jemalloc, number, score).result()
        print(
            f"a sample in {2 ** lg_period_of(number)} bytes: {score.decisions} decisions, "
            f"{score.samples} samples, {score.wrong} wrong"
        )
        total.decisions += score.decisions
        total.samples += score.samples
        total.wrong += score.wrong
    print(f"in all: {total.decisions} decisions, {total.samples} samples, {total.wrong} wrong")
    sys.exit(total.wrong > 0)


if __name__ == "__main__":
    main()
