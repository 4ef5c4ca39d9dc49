"""ddtrace truncates how many blocks a sample stands for, so up to half of a count is lost."""

import os
import sys
import tempfile
from itertools import islice
from pathlib import Path

from backports import zstd

os.environ["DD_INSTRUMENTATION_TELEMETRY_ENABLED"] = "false"
from ddtrace.internal.datadog.profiling import ddup
from ddtrace.profiling.collector import _memalloc


def number(data):
    """The next number of a protobuf message, seven bits a byte; None at its end."""
    value = shift = 0
    for byte in data:
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value


def fields(message):
    """The fields of a protobuf message, numbers or bytes."""
    data = iter(message)
    while (tag := number(data)) is not None:
        value = number(data)
        yield tag >> 3, bytes(islice(data, value)) if tag & 7 == 2 else value


def heap_profile(folder):
    """What the profile says of what is alive: the sum of each of its values, by name."""
    _memalloc.heap()
    _memalloc.stop()
    ddup.upload()
    [path] = Path(folder).glob("*.pprof")
    profile = [*fields(zstd.decompress(path.read_bytes()))]
    strings = [value.decode() for field, value in profile if field == 6]
    names = [strings[dict(fields(value))[1]] for field, value in profile if field == 1]
    sums = dict.fromkeys(names, 0)
    for sample in (dict(fields(value)) for field, value in profile if field == 2):
        values = iter(sample[2])
        for name in names:
            sums[name] += number(values)
    return sums


BLOCKS, SIZE, INTERVAL = 3000, 1000, 1000
HEADER = sys.getsizeof(b"")
kept = [None] * BLOCKS
with tempfile.TemporaryDirectory() as folder:
    ddup.config(service="blocks", output_filename=f"{folder}/profile")
    ddup.start()
    _memalloc.start(1, INTERVAL, False)
    for index in range(BLOCKS):
        kept[index] = bytes(SIZE - HEADER)
    reported = heap_profile(folder)["heap-live-samples"]
print(f"{BLOCKS} blocks of {SIZE} bytes are alive; reported: {reported}")
sys.exit(reported < BLOCKS * 3 / 4)
