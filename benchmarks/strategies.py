"""How wrong each sampling strategy is, stream by stream: `python benchmarks/strategies.py`.

All figures are computed from the strategies' formulas, and none is measured: the tables are the
same everywhere. They stand in docs/estimators.md, which a test compares with this output. All
strategies but Guile's are set to take about as many samples as one coin for each byte with .NET's
period does.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
from optimal_chances import optimal_chances, period_for, variance_per_allocation_bytes2
from sampling_strategies import (
    AtOverflow,
    FixedStride,
    Floats,
    Independent,
    Integers,
    Mask,
    PerByteFailedTrials,
    Strategy,
    chances_per_byte,
    error_of,
    per_allocation,
    per_byte,
)

PERIOD_BYTES = 102_400
NURSERY_BYTES = 4 * 2**20
NODE_BYTES = 64
BUFFER_BYTES = 2**20
ALLOCATIONS = 200_000


@attrs.frozen
class Stream:
    """A program's allocations, and the part of them whose bytes are asked for."""

    name: str
    sizes_bytes: Integers
    part: Mask


def mixed() -> Stream:
    """Sizes from 16 bytes to 32 KiB, each half as frequent as the one before it."""
    generator = np.random.default_rng(1)
    sizes = 2 ** generator.geometric(1 / 2, 2 * ALLOCATIONS) * 8
    sizes = sizes[sizes <= 2**15][:ALLOCATIONS]
    return Stream(
        "Sizes that vary, a type that half of the allocations have",
        sizes,
        generator.random(ALLOCATIONS) < 1 / 2,
    )


def in_step() -> Stream:
    """A loop that allocates 2,048 bytes each time, so that every fiftieth time a stride ends."""
    sizes = np.array([NODE_BYTES] * 15 + [1088], dtype=np.int64)
    stream = np.tile(sizes, ALLOCATIONS // len(sizes))
    return Stream("A loop of 15 nodes and a buffer, the nodes", stream, stream == NODE_BYTES)


def rare() -> Stream:
    """Nodes, and a megabyte now and then."""
    stream = np.full(ALLOCATIONS, NODE_BYTES, dtype=np.int64)
    stream[:: ALLOCATIONS // 20] = BUFFER_BYTES
    return Stream("Nodes, and 20 buffers of 1 MiB; the buffers", stream, stream == BUFFER_BYTES)


def best_by_size(sizes_bytes: Integers, budget: float) -> Callable[[Integers], Floats]:
    """The optimal chances for the stream when all of it is live."""
    sizes, counts = np.unique(sizes_bytes, return_counts=True)
    shares = counts / len(sizes_bytes)
    chances = optimal_chances(sizes.astype(np.float64), shares, shares, budget)
    return lambda stream: chances[np.searchsorted(sizes, stream)]


def strategies_for(sizes_bytes: Integers) -> dict[str, Strategy]:
    """The strategies by name."""
    samples = float(chances_per_byte(sizes_bytes, PERIOD_BYTES).sum())
    budget = samples / len(sizes_bytes)
    return {
        "a coin per byte, weighted (.NET 1, jemalloc)": per_byte(PERIOD_BYTES),
        "the same, failed trials (.NET 2, TCMalloc)": PerByteFailedTrials(PERIOD_BYTES),
        "the best chance for each size": Independent(best_by_size(sizes_bytes, budget)),
        "a coin per allocation": per_allocation(1 / budget),
        "a fixed stride (AllocationTick)": FixedStride(PERIOD_BYTES),
        "one a buffer overflow (Harris)": AtOverflow(PERIOD_BYTES),
        "one a collection (Guile), 4 MiB": AtOverflow(NURSERY_BYTES),
    }


def print_errors(stream: Stream) -> None:
    """One stream's table; errors are in percent of the bytes of its part."""
    truth = int(stream.sizes_bytes[stream.part].sum())
    print(f"{stream.name}: {truth:,} of {stream.sizes_bytes.sum():,} bytes\n")
    print("| strategy | samples | bias | standard error |\n|---|---:|---:|---:|")
    for name, strategy in strategies_for(stream.sizes_bytes).items():
        error = error_of(strategy, stream.sizes_bytes, stream.part)
        samples = strategy.chances(stream.sizes_bytes).sum()
        bias, spread = error.bias_bytes / truth, error.standard_error_bytes / truth
        print(f"| {name} | {samples:.0f} | {bias:.1%} | {spread:.1%} |")
    print()


def print_optimum() -> None:
    """How far one coin for each byte is from the best chances, as jemalloc's document asks."""
    sizes = np.array([16.0, 64.0, 1024.0, 16384.0, 1048576.0])
    allocated = np.array([0.6, 0.3, 0.08, 0.019, 0.001])
    lives = {
        "every size lives as long": 0.1 * allocated,
        "the larger, the longer": allocated * np.array([0.01, 0.05, 0.2, 0.5, 0.9]),
        "the larger, the shorter": allocated * np.array([0.9, 0.5, 0.2, 0.05, 0.01]),
    }
    budgets = (0.01, 0.001, 0.0001)
    print(f"| what lives | {' | '.join(f'P = {budget:.2%}' for budget in budgets)} |")
    print("|---|---:|---:|---:|")
    for name, live in lives.items():
        ratios = []
        for budget in budgets:
            chances = chances_per_byte(sizes, period_for(sizes, allocated, budget))
            best = optimal_chances(sizes, allocated, live, budget)
            ratios.append(
                variance_per_allocation_bytes2(sizes, live, chances)
                / variance_per_allocation_bytes2(sizes, live, best)
            )
        print(f"| {name} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


def main() -> None:
    """Print all tables."""
    for stream in (mixed(), in_step(), rare()):
        print_errors(stream)
    print_optimum()


if __name__ == "__main__":
    main()
