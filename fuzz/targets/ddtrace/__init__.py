"""The target `ddtrace`: its memory profiler for Python. gcfuzz predicts each of its samples.

Start reading with `python_profilers`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

DDTRACE = Program(
    name="ddtrace",
    description="ddtrace's memory profiler for Python",
    options=(PathOption("python", "The Python that has ddtrace.  [default: this one]"),),
    command=PythonDriver(__name__, lazily("fuzz.targets.ddtrace.find:interpreter")),
)
TARGETS = (DDTRACE, DDTRACE.as_documented())
