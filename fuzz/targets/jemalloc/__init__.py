"""The target `jemalloc`: the stock library of jemalloc 5.3.0. gcfuzz predicts each of its samples.

Start reading with `driver`, after `allocators.block_driver`.
"""

from fuzz.targets.registration import PathOption, Program, lazily

TARGETS = (
    Program(
        name="jemalloc",
        chunk_actions=32_768,
        description="the stock libjemalloc.so.2 of jemalloc 5.3.0",
        options=(PathOption("library", "The library of jemalloc.  [default: what is installed]"),),
        command=lazily("fuzz.targets.jemalloc.find:driver_command"),
    ),
)
