"""The events of a runtime: samples, and which methods it has compiled.

The samples are in the file of a session that the mutator has ended (sessions.cs). The methods come
through the diagnostics socket: a message starts a session, and its answer is followed by a stream
of events, which ends some time after another message has stopped the session. Invariant: a file or
a stream that has ended contains all events.
(dotnet/diagnostics, ipc-protocol.md; PerfView, EventPipeFormat.md: `Nettrace`, version 4.)
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

from fuzz.targets.process.byte_reader import ByteReader

MAGIC = b"DOTNET_IPC_V1\0"
HEAD = struct.Struct("<14sHBBH")
IS_ANSWER, IS_OK = 0xFF, 0
STOP, COLLECT, PROCESS_INFORMATION = (2, 1), (2, 4), (4, 4)
"""The sets and numbers of commands."""
PROVIDER = "Microsoft-Windows-DotNETRuntime"
RUNDOWN_PROVIDER = "Microsoft-Windows-DotNETRuntimeRundown"
SAMPLING_KEYWORD, INFORMATIONAL = 0x80000000000, 4
BUFFER_MIB, NETTRACE = 16, 1
ALLOCATION_SAMPLED, METHOD_AT_END = 303, 144
COMPILED = struct.Struct("<QQQIII")
"""A method, its module, its machine code, its size, its token, its flags."""
TIER_SHIFT, TIER_MASK = 7, 7
"""The place of a tier in the flags."""


@attrs.frozen
class Sampled:
    """An event AllocationSampled, with the offset of the sampled byte in the object."""

    time: int
    thread: int
    address: int
    size_bytes: int
    offset: int


@attrs.frozen
class Compiled:
    """An event MethodDCEndVerbose: a method, its machine code, and the tier that compiled it."""

    method: int
    address: int
    tier: int


class RundownSession:
    """A session that ends with a list of all methods. Raises OSError, and EOFError if it ends.

    Sampling is on meanwhile, and samples are dropped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        providers = struct.pack("<IQI", 1, SAMPLING_KEYWORD, INFORMATIONAL) + _text(PROVIDER)
        # A rundown, no stacks, no filter.
        wanted = struct.pack("<IIBB", BUFFER_MIB, NETTRACE, True, 0) + providers + _text("")
        self._stream, self._number = _ask(path, COLLECT, wanted)

    def end(self) -> list[Compiled]:
        """All methods. Before it answers, the runtime waits for its stream's reader."""
        stop = _send(self._path, STOP, self._number)
        parts = list(iter(lambda: self._stream.recv(2**16), b""))
        self._stream.close()
        _answer_of(stop)
        stop.close()
        return [event for event in _events_in(b"".join(parts)) if isinstance(event, Compiled)]


def samples_in(data: bytes) -> list[Sampled]:
    """All samples of a session that has ended, by time."""
    samples = (event for event in _events_in(data) if isinstance(event, Sampled))
    return sorted(samples, key=lambda sample: sample.time)


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text) + 1) + f"{text}\0".encode("utf-16-le")


def version_of(path: Path) -> str:
    """The runtime's version, the last part of its process information."""
    connection, answer = _ask(path, PROCESS_INFORMATION, b"")
    connection.close()
    return answer.decode("utf-16-le", errors="replace").split("\0")[-2]


def _ask(path: Path, command: tuple[int, int], payload: bytes) -> tuple[socket.socket, bytes]:
    connection = _send(path, command, payload)
    return connection, _answer_of(connection)


def _send(path: Path, command: tuple[int, int], payload: bytes) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    size_bytes = HEAD.size + len(payload)
    connection.sendall(HEAD.pack(MAGIC, size_bytes, *command, 0) + payload)
    return connection


def _answer_of(connection: socket.socket) -> bytes:
    _, size_bytes, *status, _ = HEAD.unpack(_received(connection, HEAD.size))
    answer = _received(connection, size_bytes - HEAD.size)
    if status != [IS_ANSWER, IS_OK]:
        raise OSError(f"the runtime refuses a session: {answer.hex()}")
    return answer


def _received(connection: socket.socket, size_bytes: int) -> bytes:
    data = connection.recv(size_bytes, socket.MSG_WAITALL)
    if len(data) < size_bytes:
        raise EOFError
    return data


STREAM_HEAD = b"Nettrace" + struct.pack("<I", 20) + b"!FastSerialization.1"
BEGIN_OBJECT = 5
TRACE_BYTES = 48
KIND, THREAD, STACK, ACTIVITY, RELATED_ACTIVITY, PAYLOAD_SIZE = 1, 2, 8, 16, 32, 128
LOGICAL_THREAD, GUID_BYTES = 4, 16


def _events_in(data: bytes) -> Iterator[Sampled | Compiled]:
    assert data.startswith(STREAM_HEAD)
    reader = ByteReader(data, len(STREAM_HEAD))
    kinds: dict[int, tuple[str, int]] = {}
    while reader.fixed(1) == BEGIN_OBJECT:
        reader.taken(2 + 8)  # The type's two tags, and two versions.
        name = reader.taken(reader.fixed(4)).decode()
        reader.taken(1)
        if name == "Trace":
            reader.taken(TRACE_BYTES)
        else:
            block_bytes = reader.fixed(4)
            reader.at += -reader.at % 4
            end = reader.at + block_bytes
            if name in {"MetadataBlock", "EventBlock"}:
                for kind, thread, time, payload in events_in(reader, end):
                    if name == "MetadataBlock":
                        number, declared = _declared(payload)
                        kinds[number] = declared
                    elif kinds.get(kind) == (PROVIDER, ALLOCATION_SAMPLED):
                        yield Sampled(time, thread, *struct.unpack("<QQQ", payload[-24:]))
                    elif kinds.get(kind) == (RUNDOWN_PROVIDER, METHOD_AT_END):
                        yield _compiled(payload)
            reader.at = end
        reader.taken(1)


def events_in(reader: ByteReader, end: int) -> Iterator[tuple[int, int, int, bytes]]:
    """The kind, the thread, the time, and the payload of each event of a block.

    A value that is left out is that of the event before. Times may go backwards.
    """
    reader.taken(reader.fixed(2) - 2)
    kind = thread = time = payload_bytes = 0
    while reader.at < end:
        flags = reader.fixed(1)
        if flags & KIND:
            kind = reader.number()
        if flags & THREAD:  # It is between a count and a processor.
            reader.number()
            thread = reader.number()
            reader.number()
        for flag in (LOGICAL_THREAD, STACK):
            if flags & flag:
                reader.number()
        time = (time + reader.number()) % 2**64
        for flag in (ACTIVITY, RELATED_ACTIVITY):
            if flags & flag:
                reader.taken(GUID_BYTES)
        if flags & PAYLOAD_SIZE:
            payload_bytes = reader.number()
        yield kind, thread, time, reader.taken(payload_bytes)


def _compiled(payload: bytes) -> Compiled:
    method, _, address, _, _, flags = COMPILED.unpack_from(payload)
    return Compiled(method, address, flags >> TIER_SHIFT & TIER_MASK)


def _declared(payload: bytes) -> tuple[int, tuple[str, int]]:
    """The number of a kind of event in the stream, its provider, and its number there."""
    [number] = struct.unpack_from("<I", payload)
    provider = payload[4:].decode("utf-16-le", errors="replace").partition("\0")[0]
    [event] = struct.unpack_from("<I", payload, 4 + 2 * len(provider) + 2)
    return number, (provider, event)
