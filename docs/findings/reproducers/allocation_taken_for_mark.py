"""Scalene treats an allocation of 98,821 bytes as its internal mark, and does not report it."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
kept = []
for _ in range(1000):
    kept.append(bytes({}))
"""


def reported_mb(length):
    """What Scalene says that the program has allocated."""
    with tempfile.TemporaryDirectory() as folder:
        program, profile = Path(folder, "program.py"), Path(folder, "profile.json")
        program.write_text(PROGRAM.format(length))
        words = ["scalene", "run", "-o", str(profile), str(program)]
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
        files = json.loads(profile.read_text())["files"].values()
        return sum(line["n_malloc_mb"] for file in files for line in file["lines"])


for length in 98_787, 98_788, 98_789:  # sys.getsizeof(bytes(98_788)) is 98,821.
    reported = reported_mb(length)
    print(f"1000 x bytes({length}), 94 MB, reported: {reported:.0f}")
    if length == 98_788:
        code = reported < 10
sys.exit(code)
