"""The targets `dotnet`, the stock runtime of .NET 10, and the same as it is documented.

A mutator in C#, which knows the runtime's own library alone, is asked through pipes; samples come
over the diagnostics socket. The modules import the protocol, the problems and `targets.process`,
and no formula. A newcomer begins with `dotnet_driver`.
"""

DOTNET, AS_DOCUMENTED = "dotnet", "dotnet-as-documented"
RUNTIMES = (DOTNET, AS_DOCUMENTED)
