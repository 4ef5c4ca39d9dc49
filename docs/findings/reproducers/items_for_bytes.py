"""Compiled code puts an array into the nursery that is eight times as large as the limit.

PYPY_GC_NURSERY=2M pypy3 items_for_bytes.py
"""

import gc
import sys
import time

ITEMS = 135_152  # the limit in bytes, less a header of 16
ITEM_BYTES = 8
COLLECTIONS = 1_000


def copies(items, count):
    """The interpreter makes the first copy, compiled code the others."""
    for _ in range(count):
        last = items[:]
    return last


def outside_bytes():
    return gc.get_stats()._s.total_rawmalloced_memory


def seconds(items):
    """The processor time of minor collections, with one item written before each."""
    text = "x" * 1_000
    start = time.process_time()
    for number in range(COLLECTIONS):
        items[0] = [number]
        for _ in range(21):  # fills the nursery of 2 MiB
            text * 100
    return time.process_time() - start


copies([None] * 4, 3_000)  # compiles the loop
outside = []
for length in (ITEMS, ITEMS + 1):
    items = [None] * length
    gc.collect()
    before = outside_bytes()
    copy = copies(items, 2)
    outside.append((outside_bytes() - before) // (length * ITEM_BYTES))
    milliseconds = seconds(copy) * 1_000
    print(
        f"{length} items: {outside[-1]} of 2 copies are outside the nursery;"
        f" {COLLECTIONS} collections took {milliseconds:.0f} ms"
    )
sys.exit(outside != [2, 2])
