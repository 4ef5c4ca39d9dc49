"""Single-file programs of .NET: a host that contains the runtime, then files with a manifest.

    host  ...  file  file  ...  manifest: version, files, and the place of each
          ^ the manifest's place; the signature; the name of the file to run

Invariant: only the host and the core library are taken from the program that carries a runtime.
(dotnet/designs, single-file/bundler.md; Microsoft.NET.HostModel, Manifest.cs. Version 6.)
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from fuzz.problems import BadInputError
from fuzz.targets.process.byte_reader import ByteReader

ASSEMBLY, CORE_LIBRARY = "mutator.dll", "System.Private.CoreLib.dll"
SIGNATURE = bytes.fromhex("8b1202b96a612038727b930214d7a03213f5b9e6efae3318ee3b2dce24b36aae")
NAME_OFFSET, NAME_BYTES = 40, 64
"""The place of the name of the file to run, relative to the signature."""
NO_NAME = b"c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"
"""The bytes at that place in a host without a file to run."""
VERSION = 6
HEAD, TABLES, ENTRY = struct.Struct("<IIi"), struct.Struct("<qqqqQ"), struct.Struct("<qqqB")
IS_ASSEMBLY, IS_DEPENDENCIES, IS_CONFIGURATION = 1, 3, 4
ALIGNMENT = 4096
PLATFORM = ".NETCoreApp,Version=v10.0/linux-x64"


def runtime_of(files: Sequence[Path]) -> CarriedRuntime:
    """The runtime of a program that carries it, or of an SDK's files. Raises BadInputError."""
    if len(files) > 1:
        host, library = (path.read_bytes() for path in files)
        return CarriedRuntime(host, library)
    [program] = files
    try:
        with (
            program.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _carried(data, program)
    except (ValueError, IndexError, struct.error) as problem:
        raise BadInputError(f"{program}: not a complete program of .NET: {problem}") from problem


@attrs.frozen
class CarriedRuntime:
    """A host that contains the runtime, and its core library."""

    host: bytes = attrs.field(repr=False)
    core_library: bytes = attrs.field(repr=False)

    def with_assembly(self, assembly: bytes, properties: Mapping[str, bool] | None = None) -> bytes:
        made = bytearray(self.host)
        signature = self.host.index(SIGNATURE)
        name = self.host.find(NO_NAME)
        name = signature + NAME_OFFSET if name < 0 else name
        made[name : name + NAME_BYTES] = ASSEMBLY.encode().ljust(NAME_BYTES, b"\0")
        files = {
            ASSEMBLY: (IS_ASSEMBLY, assembly),
            CORE_LIBRARY: (IS_ASSEMBLY, self.core_library),
            "mutator.deps.json": (IS_DEPENDENCIES, _json(DEPENDENCIES)),
            "mutator.runtimeconfig.json": (IS_CONFIGURATION, _json(configured(properties))),
        }
        entries, places = b"", {}
        for file_name, (kind, content) in files.items():
            made += bytes(-len(made) % ALIGNMENT)
            places[kind] = len(made), len(content)
            entries += ENTRY.pack(*places[kind], 0, kind) + _name(file_name)
            made += content
        struct.pack_into("<q", made, signature - 8, len(made))
        tables = TABLES.pack(*places[IS_DEPENDENCIES], *places[IS_CONFIGURATION], 0)
        made += HEAD.pack(VERSION, 0, len(files)) + _name("gcfuzz") + tables + entries
        return bytes(made)


def _carried(data: mmap.mmap, path: Path) -> CarriedRuntime:
    """The runtime in a program's bundle, whose files must not be compressed."""
    signature = data.find(SIGNATURE)
    if signature < 0:
        raise BadInputError(f"{path}: not a single-file program of .NET")
    [place] = struct.unpack_from("<q", data, signature - 8)
    reader = ByteReader(data, place)
    version, _, count = reader.packed(HEAD)
    if version != VERSION:
        raise BadInputError(f"{path}: a bundle of version {version}; it must be {VERSION}")
    reader.taken(reader.number())  # The bundle's name.
    reader.packed(TABLES)
    files: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        offset, size_bytes, compressed_bytes, _kind = reader.packed(ENTRY)
        name = reader.taken(reader.number()).decode()
        if compressed_bytes and name == CORE_LIBRARY:
            raise BadInputError(f"{path}: its files are compressed")
        files[name] = offset, size_bytes
    if CORE_LIBRARY not in files:
        raise BadInputError(f"{path}: it carries no runtime")
    offset, size_bytes = files[CORE_LIBRARY]
    host_bytes = min(offset for offset, _ in files.values())
    return CarriedRuntime(data[:host_bytes], data[offset : offset + size_bytes])


DEPENDENCIES = {"runtimeTarget": {"name": PLATFORM}, "targets": {PLATFORM: {}}, "libraries": {}}
PROPERTIES = {"System.Diagnostics.Tracing.EventSource.IsSupported": False}
"""With event sources the start of a session allocates."""


def configured(properties: Mapping[str, bool] | None) -> dict[str, object]:
    """The runtime's configuration."""
    frameworks = [{"name": "Microsoft.NETCore.App", "version": "10.0.0"}]
    options = {"tfm": "net10.0", "includedFrameworks": frameworks}
    return {"runtimeOptions": {**options, "configProperties": properties or PROPERTIES}}


def _json(data: object) -> bytes:
    return json.dumps(data).encode()


def _name(name: str) -> bytes:
    return bytes([len(name)]) + name.encode()
