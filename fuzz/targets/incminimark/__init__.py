"""PyPy's own collector: `incminimark` untranslated, `-c` as C, `-jit` driven by machine code.

`find` looks for Python 2.7. Untranslated: `driver` runs there and imports nothing of gcfuzz; start
reading at its end. As C: `translation` translates `translated.py`, whose part in C is
`translated.c`, and `launch` starts the program. With the JIT: `compiled.py` and `compiled.c` on top
of these. `jit_switches` changes its backend, and `sample_limit` adds sampling. All state the
contract of `contract`.
"""

from functools import partial

from fuzz.targets.registration import PathOption, Program, lazily

DRIVER = lazily("fuzz.targets.incminimark.find:driver_command")
INCMINIMARK = Program(
    name="incminimark",
    description="PyPy's collector, untranslated, under Python 2.7",
    options=(
        PathOption(
            "source",
            "The folder with incminimark's rpython: a checkout, or made by pip's --target.",
        ),
        PathOption("python", "The Python 2.7 of incminimark.  [default: the first found]"),
    ),
    command=partial(DRIVER, ()),
)
FINALIZERS = INCMINIMARK.variant(
    "-finalizers", "the same with a FinalizerQueue", command=partial(DRIVER, ("finalizers",))
)
EXHAUSTION = INCMINIMARK.variant(
    "-exhaustion",
    "the same with finalizers and a greatest heap size",
    command=partial(DRIVER, ("finalizers", "limit")),
)
TRANSLATED = Program(
    name="incminimark-c",
    chunk_actions=65_536,
    description="PyPy's collector, translated to C",
    options=(
        *INCMINIMARK.options,
        PathOption(
            "build",
            "The build of incminimark-c: debug has assertions, sanitized AddressSanitizer too.  "
            "[default: release]",
            choices=("release", "debug", "sanitized"),
        ),
    ),
    command=lazily("fuzz.targets.incminimark.translation:launcher_command"),
    variant_of=INCMINIMARK.name,
    needs_more=True,
)
TRANSLATED_FINALIZERS = TRANSLATED.variant(
    "-finalizers", "the same with a FinalizerQueue", environment=["GCFUZZ_FINALIZERS=1"]
)
COMPILED = Program(
    name="incminimark-jit",
    description="PyPy's collector, driven from machine code of PyPy's JIT",
    options=INCMINIMARK.options,
    command=lazily("fuzz.targets.incminimark.translation:compiled_command"),
    variant_of=INCMINIMARK.name,
    needs_more=True,
)
COMPILED_FINALIZERS = COMPILED.variant(
    "-finalizers", "incminimark-jit with finalizers and pins", environment=["GCFUZZ_FINALIZERS=1"]
)
TARGETS = (
    *(INCMINIMARK, FINALIZERS, EXHAUSTION, TRANSLATED, TRANSLATED_FINALIZERS),
    *(COMPILED, COMPILED.as_documented(), COMPILED_FINALIZERS),
)
