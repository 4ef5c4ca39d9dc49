"""The target `scalene`: its memory profiler for Python. gcfuzz predicts each of its samples.

Start reading with `python_profilers`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

SCALENE = Program(
    name="scalene",
    chunk_actions=16_384,
    description="Scalene's memory profiler for Python",
    options=(PathOption("python", "The Python that has scalene.  [default: this one]"),),
    command=PythonDriver(__name__, lazily("fuzz.targets.scalene.find:interpreter")),
)
TARGETS = (SCALENE, SCALENE.as_documented())
