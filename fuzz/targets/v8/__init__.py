"""The targets `v8`: Node's sampling heap profiler, and its finalizers.

The mutators are programs for Node that speak the protocol themselves; that of the profiler carries
out each trace as a batch. The only Python here is their command lines, in `find`.
"""

from functools import partial

from fuzz.targets.registration import PathOption, Program, lazily

NODE = lazily("fuzz.targets.v8.find:node_command")
V8 = Program(
    name="v8",
    chunk_actions=8_192,
    description="V8's sampling heap profiler, in a stock Node 20 to 26",
    options=(PathOption("node", "The Node of v8.  [default: on PATH]"),),
    command=partial(NODE, "mutator.js", ()),
)
FINALIZERS = V8.variant(
    "-finalizers",
    "FinalizationRegistry, WeakRef and WeakMap of V8, in a stock Node 20 to 26",
    command=partial(NODE, "finalizers.js", ("--expose-gc",)),
    chunk_actions=4_096,
)
TARGETS = (V8, FINALIZERS)
