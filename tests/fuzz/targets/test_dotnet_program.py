"""What the target dotnet needs: a compiler, and a program that carries a runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.problems import BadInputError
from fuzz.targets.dotnet import bundle
from fuzz.targets.dotnet.find import HOW_TO_INSTALL, find_carrier, made_program


def test_without_a_compiler_the_error_has_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    carrier = tmp_path / "carrier"
    carrier.touch()
    with pytest.raises(BadInputError, match=f"needs a compiler of C#: {HOW_TO_INSTALL}"):
        made_program(carrier)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"text", "not a single-file program of .NET"),
        (bytes(8) + bundle.SIGNATURE, "a bundle of version 0; it must be 6"),
        (
            (40).to_bytes(8, "little") + bundle.SIGNATURE + b"\6" + bytes(60),
            "it carries no runtime",
        ),
        (b"", "not a complete program of .NET"),
        ((2**40).to_bytes(8, "little") + bundle.SIGNATURE, "not a complete program of .NET"),
        (None, "--dotnet names a program"),
    ],
    ids=[
        "no bundle",
        "another version",
        "an empty bundle",
        "an empty file",
        "a cut bundle",
        "no file",
    ],
)
def test_a_program_without_a_runtime_is_bad_input(
    content: bytes | None, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "carrier"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInputError, match=what):
        bundle.runtime_of(find_carrier(path))
