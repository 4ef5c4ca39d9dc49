"""The target `incminimark`: PyPy's own collector, untranslated, under Python 2.7.

`find` looks for the interpreter. `driver` runs there and imports nothing of gcfuzz; start reading
at its end.
"""

from fuzz.targets.registration import PathOption, Program, lazily

TARGETS = (
    Program(
        name="incminimark",
        description="PyPy's collector, untranslated, under Python 2.7",
        options=(
            PathOption(
                "source",
                "The folder with incminimark's rpython: a checkout, or made by pip's --target.",
            ),
            PathOption("python", "The Python 2.7 of incminimark.  [default: the first found]"),
        ),
        command=lazily("fuzz.targets.incminimark.find:driver_command"),
    ),
)
