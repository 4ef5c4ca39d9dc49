"""The target `gperftools`: the stock library of version 2.10. gcfuzz predicts each of its samples.

Start reading with `driver`, after `allocators.block_driver`.
"""

from fuzz.targets.allocators.find import STATIC_STORAGE
from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

ONE_HEAP = (f"MALLOC_TOP_PAD_={256 << 20}", f"MALLOC_TRIM_THRESHOLD_={1 << 30}")
"""The library's memory starts at the end of the heap of the interpreter's own allocator, and its
samplers' addresses seed them. So that heap takes all its memory at once, and keeps it."""
GPERFTOOLS = Program(
    name="gperftools",
    chunk_actions=32_768,
    description="the stock libtcmalloc.so.4 of gperftools 2.10",
    options=(PathOption("library", "The library of gperftools.  [default: what is installed]"),),
    command=PythonDriver(__name__, lazily("fuzz.targets.allocators.find:named_library")),
    environment=(STATIC_STORAGE, *ONE_HEAP),
)
TARGETS = (GPERFTOOLS, GPERFTOOLS.as_documented())
