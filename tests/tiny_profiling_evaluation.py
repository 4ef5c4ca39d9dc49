"""The evaluation of the profiler with workloads of a moment: `tiny_profiling_evaluation.py FOLDER`.

It needs the folder `benchmarks` on the path.
"""

import sys
from functools import partial
from pathlib import Path

from profiling import write
from profiling_runs import evaluate

from gcmodel.workloads import allocate

WORKLOADS = {
    name: partial(allocate.run, rounds=rounds) for name, rounds in (("one", 100), ("two", 200))
}

if __name__ == "__main__":
    write(evaluate(WORKLOADS, repeats=2, seeds=2, rounds=2), Path(sys.argv[1]))
