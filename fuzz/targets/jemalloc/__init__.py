"""The target `jemalloc`: the stock library of jemalloc 5.3.0. gcfuzz predicts each of its samples.

Start reading with `driver`, after `allocators.block_driver`.
"""

from fuzz.targets.allocators.find import STATIC_STORAGE
from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

CONFIGURATION = "MALLOC_CONF=prof:true,prof_accum:true,tcache:false,retain:true"
"""With a cache for each thread, some calls would tick and place blocks for others. Arenas retain
addresses: else a block grows in place if the system happens to have the addresses behind it. So a
trace costs about 6 MB of addresses, and no memory."""
TARGETS = (
    Program(
        name="jemalloc",
        chunk_actions=32_768,
        description="the stock libjemalloc.so.2 of jemalloc 5.3.0",
        options=(PathOption("library", "The library of jemalloc.  [default: what is installed]"),),
        command=PythonDriver(__name__, lazily("fuzz.targets.allocators.find:named_library")),
        environment=(STATIC_STORAGE, CONFIGURATION),
    ),
)
