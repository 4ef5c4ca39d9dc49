"""The target `tcmalloc`: Google's TCMalloc, in a program. gcfuzz predicts each of its samples.

Start reading with `driver`, after `allocators.block_driver`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

TARGETS = (
    Program(
        name="tcmalloc",
        chunk_actions=32_768,
        description="Google's TCMalloc, in a program that has it",
        options=(
            PathOption("library", "The program that has tcmalloc in it.  [default: npm's workerd]"),
        ),
        command=PythonDriver(__name__, lazily("fuzz.targets.allocators.find:named_library")),
    ),
)
