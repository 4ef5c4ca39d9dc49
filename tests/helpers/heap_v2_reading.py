"""Heap dumps in the text format that jeprof reads, read: what `heap_v2` or jemalloc has written."""

import re

import attrs

from gcmodel.estimation.heap_v2 import LIBRARIES
from gcmodel.estimation.jemalloc import Dumped
from gcmodel.estimation.samples import Site

HEAD = re.compile(r"heap_v2/(\d+)")
STACK = re.compile(r"@((?: 0x[0-9a-f]+)+)")
ALL_THREADS = re.compile(r"  t\*: (\d+): (\d+) \[(\d+): (\d+)\]")


@attrs.frozen
class Numbers:
    """A `t*` line."""

    live: Dumped
    allocated: Dumped


@attrs.frozen(kw_only=True)
class Dump:
    """A dump as it was read, all threads together."""

    period_bytes: int
    head: Numbers
    stacks: dict[Site, Numbers]


def read(text: str) -> Dump:
    """The dump's period, its head and each stack's numbers.

    The lines of single threads, and all that follows the stacks, are not looked at.
    """
    lines = iter(text.partition(LIBRARIES)[0].splitlines())
    head = HEAD.fullmatch(next(lines, ""))
    assert head
    numbers: dict[Site, Numbers] = {}
    site: Site = ()
    for line in lines:
        if stack := STACK.fullmatch(line):
            site = tuple(int(address, 16) for address in stack[1].split())
        elif found := ALL_THREADS.fullmatch(line):
            live_objects, live_bytes, objects, size = map(int, found.groups())
            numbers[site] = Numbers(Dumped(live_objects, live_bytes), Dumped(objects, size))
    return Dump(period_bytes=int(head[1]), head=numbers.pop(()), stacks=numbers)
