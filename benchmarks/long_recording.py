"""Ten million allocations, sampled every 64 bytes: `python benchmarks/long_recording.py`.

Twice, each in a process of its own. The first is recorded to its end, and says itself how much
memory the process had at each minor collection. The second is killed in the middle, and what it
leaves is exported to every format. Fails if the memory grows, or if anything is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gcmodel.profiling.profile import Fate, Profile
from gcmodel.profiling.recording import read
from gcmodel.workloads.allocate import ARRAY_LENGTHS, NODES_PER_ROUND, ROUNDS, STRING_LENGTHS

ALLOCATIONS = 10_000_000
PERIOD_BYTES = 64
OBJECTS_PER_ROUND = NODES_PER_ROUND + len(ARRAY_LENGTHS) + len(STRING_LENGTHS) + 1
REPEAT = -(-ALLOCATIONS // (ROUNDS * OBJECTS_PER_ROUND))
GROWTH_BYTES_MAX = 8 * 2**20
WARM_UP_SHARE = 0.05
"""After this share of the run the process has all that it needs."""
FORMATS = (".json.gz", ".heap", ".collapsed")


def profile_command(what: str, *words: str) -> list[str]:
    """A command line of gcfuzz."""
    return [sys.executable, "-m", "fuzz", "profile", what, *words]


def record_command(recording: Path) -> list[str]:
    """What records ten million allocations."""
    size = ["--max-size", "4G", "--period", str(PERIOD_BYTES), "--repeat", str(REPEAT)]
    return profile_command("allocate", *size, "-o", str(recording))


def check_memory(profile: Profile) -> None:
    """The process had about as much memory at the end of the recording as soon after its start."""
    resident = [each.resident_bytes for each in profile.minor_collections]
    warm = resident[int(len(resident) * WARM_UP_SHARE)]
    growth_bytes = max(resident) - warm
    print(f"resident: {warm:,} bytes when warm, at most {max(resident):,}: {growth_bytes:,} more")
    assert growth_bytes <= GROWTH_BYTES_MAX


def check_whole(recording: Path) -> None:
    """Nothing is missing: the totals are those of the end, and every fate is known."""
    began = time.perf_counter()
    subprocess.run(record_command(recording), check=True)  # noqa: S603 - our own command
    print(f"recorded in {time.perf_counter() - began:.0f} s, {recording.stat().st_size:,} bytes")
    profile = read(recording)
    assert profile.is_complete
    assert all(sample.fate is not Fate.UNKNOWN for sample in profile.samples)
    print(f"{len(profile.samples):,} sampled objects stand for {profile.weight_bytes:,} bytes")
    check_memory(profile)


def check_killed(recording: Path, half_bytes: int) -> None:
    """What a process leaves that is killed in the middle is exported to every format."""
    process = subprocess.Popen(record_command(recording))  # noqa: S603 - the same
    try:
        while not recording.exists() or recording.stat().st_size < half_bytes:
            time.sleep(0.1)
            assert process.poll() is None, "the recording ended before it was killed"
    finally:
        process.kill()
        process.wait()
    print(f"killed after {recording.stat().st_size:,} bytes")
    exported = [recording.with_suffix(ending) for ending in FORMATS]
    words = [word for path in exported for word in ("-o", str(path))]
    subprocess.run(profile_command(str(recording), *words), check=True)  # noqa: S603 - the same
    for path in exported:
        print(f"{path.suffixes}: {path.stat().st_size:,} bytes")
    lines = recording.with_suffix(".collapsed").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == read(recording).weight_bytes


def main() -> None:
    """Both, in a folder that is removed."""
    print(f"{REPEAT * ROUNDS * OBJECTS_PER_ROUND:,} allocations, pid {os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole.jsonl", Path(folder) / "killed.jsonl"
        check_whole(whole)
        check_killed(killed, whole.stat().st_size // 2)


if __name__ == "__main__":
    main()
