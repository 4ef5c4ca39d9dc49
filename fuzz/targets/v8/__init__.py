"""The targets `v8`: Node's sampling heap profiler, and its finalizers.

The mutator is a program for Node that speaks the protocol itself. Start reading with `mutator.js`;
`makers.js` has the tiers, `sampler.js` the profiles, and `generator.js` V8's generator. The only
Python here is its command line, in `find`.
"""

from functools import partial

from fuzz.targets.registration import PathOption, Program, lazily

NODE = lazily("fuzz.targets.v8.find:node_command")
V8 = Program(
    name="v8",
    chunk_actions=8_192,
    description="V8's sampling heap profiler, in a stock Node 20 to 26",
    options=(PathOption("node", "The Node of v8.  [default: on PATH]"),),
    command=partial(NODE, ()),
)
FINALIZERS = V8.variant(
    "-finalizers",
    "FinalizationRegistry, WeakRef and WeakMap of V8, in a stock Node 20 to 26",
    command=partial(NODE, ("--expose-gc",)),
    chunk_actions=4_096,
)
TARGETS = (V8, V8.as_documented(), FINALIZERS)
