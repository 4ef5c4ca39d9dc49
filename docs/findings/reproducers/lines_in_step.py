"""Scalene samples by a counter alone, so it may attribute two alternating lines to one."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
kept = []
for _ in range(100):
    kept.append(bytes(600_000))
    kept.append(bytes(600_001))
"""


def reported_mb():
    """What Scalene says that each of the two lines has allocated."""
    with tempfile.TemporaryDirectory() as folder:
        program, profile = Path(folder, "program.py"), Path(folder, "profile.json")
        program.write_text(PROGRAM)
        words = ["scalene", "run", "-o", str(profile), str(program)]
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
        [file] = json.loads(profile.read_text())["files"].values()
        found = {line["lineno"]: line["n_malloc_mb"] for line in file["lines"]}
        return [found[4], found[5]]


reported = reported_mb()
print("two lines allocate 57 MB each; reported: {:.0f} and {:.0f}".format(*reported))
sys.exit(min(reported) < max(reported) / 2)
