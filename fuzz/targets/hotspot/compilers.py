"""What runs bytecode: the interpreter, C1 or C2, and the flags with which a compiler is used."""

from __future__ import annotations

INTERPRETER, C1, C2 = 1, 2, 3
"""By their numbers in the setting `tier`. With 0, JNI allocates."""
LEVELS = {INTERPRETER: 0, C1: 1, C2: 4}
"""The machine's numbers for them."""
_ONLY = {C1: "-XX:TieredStopAtLevel=1", C2: "-XX:-TieredCompilation"}


def flags_to_compile(tier: int, *methods: str) -> tuple[str, ...]:
    """The flags with which only these methods are compiled, by this compiler, soon and for good.

    A method is CLASS.METHOD; both may end with a star. The interpreter needs no flags.
    """
    if tier == INTERPRETER:
        return ()
    return (
        *("-XX:+UseCompiler", "-Xbatch", "-XX:CompileThresholdScaling=0.02", _ONLY[tier]),
        *("-XX:-UseCodeCacheFlushing", "-XX:CompileCommand=quiet"),
        *(f"-XX:CompileCommand=compileonly,{method}" for method in methods),
    )
