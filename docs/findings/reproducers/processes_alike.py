"""ddtrace seeds its generator with the interval, so every process samples the same."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROCESSES, BLOCKS, SIZE, INTERVAL = 5, 2000, 1000, 4096


def run(folder):
    """Allocate blocks, and write a profile."""
    from ddtrace.internal.datadog.profiling import ddup
    from ddtrace.profiling.collector import _memalloc

    kept = [None] * BLOCKS
    ddup.config(service="blocks", output_filename=f"{folder}/profile")
    ddup.start()
    _memalloc.start(1, INTERVAL, False)
    for index in range(BLOCKS):
        kept[index] = bytes(SIZE)
    _memalloc.heap()
    _memalloc.stop()
    ddup.upload()


def sampled():
    """How many blocks another process samples."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false"}
        subprocess.run([sys.executable, __file__, folder], check=True, env=environment)
        [path] = Path(folder).glob("*.internal_metadata.json")
        return json.loads(path.read_text())["heap_tracker_count"]


if sys.argv[1:]:
    run(*sys.argv[1:])
else:
    counts = [sampled() for _ in range(PROCESSES)]
    print(f"sampled of {BLOCKS} blocks in {PROCESSES} processes:", *counts)
    sys.exit(len(set(counts)) == 1)
