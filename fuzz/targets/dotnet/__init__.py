"""The target `dotnet`: the stock runtime of .NET 10. gcfuzz predicts each of its samples.

The mutator is a program in C# that uses only the runtime's own library. The driver sends it
questions through pipes, and gets the samples in the file of each sampling session. Start reading
with `driver`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

DOTNET = Program(
    name="dotnet",
    chunk_actions=16_384,
    description="the stock runtime of .NET 10",
    options=(
        PathOption(
            "dotnet",
            "The program that carries the runtime of dotnet, or an SDK's folder.  [default: "
            "msmcp-azure's, or the first SDK found]",
        ),
    ),
    command=PythonDriver(__name__, lazily("fuzz.targets.dotnet.find:program")),
)
FINALIZERS = DOTNET.variant(
    "-finalizers",
    "finalizers, weak handles and ConditionalWeakTable of .NET 10",
    driver="finalizers_driver",
    chunk_actions=8_192,
)
TARGETS = (DOTNET, DOTNET.as_documented(), FINALIZERS)
