"""The target `ocaml`: Memprof of a stock OCaml. gcfuzz predicts each of its samples.

The mutator is a program in OCaml that is compiled when the target starts. The driver sends it
questions through a pipe. Start reading with `driver`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

OCAML = Program(
    name="ocaml",
    chunk_actions=16_384,
    description="Memprof of a stock OCaml 4.13, 4.14 or 5.3",
    options=(PathOption("ocaml", "The ocamlopt of ocaml.  [default: on PATH]"),),
    command=PythonDriver(__name__, lazily("fuzz.targets.ocaml.find:made_programs")),
)
FINALIZERS = OCAML.variant(
    "-finalizers",
    "Gc.finalise, Weak and Ephemeron of a stock OCaml 4.13, 4.14 or 5.3",
    driver="finalizers_driver",
)
TARGETS = (OCAML, FINALIZERS)
