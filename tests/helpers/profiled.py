"""What the tests of `gcfuzz profile` share: a script, actions of a trace, an exported profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

SCRIPT = """
def make(heap, number):
    heap.allocate_node(number)
    heap.free(len(heap.roots) - 1)

def main(heap):
    for number in range(2500):
        make(heap, number)
"""
ALLOCATED_BYTES = 2500 * 32
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'

Profiled = Callable[..., str]


def enable(period_bytes: int) -> dict[str, object]:
    return {"do": "enable_sampling", "period_bytes": period_bytes}


def node(number: int) -> dict[str, object]:
    return {"do": "allocate_node", "number": number}


def collapsed(path: str = "out.collapsed") -> dict[str, int]:
    lines = Path(path).read_text().splitlines()
    return {site: int(weight) for site, _, weight in (line.rpartition(" ") for line in lines)}
