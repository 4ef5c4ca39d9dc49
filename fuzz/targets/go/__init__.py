"""The target `go`: the runtime of a stock Go. gcfuzz predicts each sample of its heap profile.

The mutator is a program in Go that the user's Go compiles. The driver sends it questions through a
pipe; for `go-finalizers` it speaks the protocol itself. Start reading with `driver`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

GO = Program(
    name="go",
    chunk_actions=16_384,
    description="the heap profile of a stock Go",
    options=(
        PathOption("go", "The program go that compiles the mutator of go.  [default: on PATH]"),
    ),
    command=PythonDriver(__name__, lazily("fuzz.targets.go.find:made_program")),
)
FINALIZERS = GO.variant(
    "-finalizers",
    "SetFinalizer, AddCleanup and weak.Pointer of a stock Go",
    command=lazily("fuzz.targets.go.find:finalizers_command"),
)
TARGETS = (GO, GO.as_documented(), FINALIZERS)
