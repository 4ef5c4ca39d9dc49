"""The target `gperftools`: the stock library of version 2.10. gcfuzz predicts each of its samples.

Start reading with `driver`, after `allocators.block_driver`.
"""

from fuzz.targets.registration import PathOption, Program, lazily

GPERFTOOLS = Program(
    name="gperftools",
    chunk_actions=32_768,
    description="the stock libtcmalloc.so.4 of gperftools 2.10",
    options=(PathOption("library", "The library of gperftools.  [default: what is installed]"),),
    command=lazily("fuzz.targets.gperftools.find:driver_command"),
)
TARGETS = (GPERFTOOLS, GPERFTOOLS.as_documented())
