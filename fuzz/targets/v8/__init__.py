"""The target `v8`: Node's sampling heap profiler. gcfuzz predicts each of its samples.

The mutator is a program for Node that speaks the protocol itself and carries out each trace as a
batch. The only Python here is its command line, in `find`.
"""

from fuzz.targets.registration import PathOption, Program, lazily

TARGETS = (
    Program(
        name="v8",
        chunk_actions=8_192,
        description="V8's sampling heap profiler, in a stock Node 20",
        options=(PathOption("node", "The Node of v8.  [default: on PATH]"),),
        command=lazily("fuzz.targets.v8.find:mutator_command"),
    ),
)
