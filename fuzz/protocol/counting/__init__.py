"""How a target counts bytes: one class for each way, with the keys that only this way has.

A contract names a way by `by` (`"counting": {"by": "contexts", ...}`). The module of the same name
in `fuzz/oracles/counting` has its clock; the section of the same name in docs/sampling-rules.md
explains it. Read `way` first, then `bytes`.
"""

from fuzz.protocol.counting.buffers import Buffers, ThreadBuffers
from fuzz.protocol.counting.bytes import Bytes
from fuzz.protocol.counting.contexts import Contexts
from fuzz.protocol.counting.lazy_seeds import LazySeeds
from fuzz.protocol.counting.net_bytes import NetBytes
from fuzz.protocol.counting.placed_blocks import PlacedBlocks
from fuzz.protocol.counting.profile_rate import ProfileRate
from fuzz.protocol.counting.retired_buffers import RetiredBuffers
from fuzz.protocol.counting.streams import Streams
from fuzz.protocol.counting.way import Way

WAYS: dict[str, type[Way]] = {
    way.by: way
    for way in (
        *(Bytes, Contexts, Buffers, Streams),
        *(NetBytes, ProfileRate, LazySeeds, RetiredBuffers, PlacedBlocks),
    )
}
"""Each way's class, by its name in contracts."""

__all__ = [
    "WAYS",
    "Buffers",
    "Bytes",
    "Contexts",
    "LazySeeds",
    "NetBytes",
    "PlacedBlocks",
    "ProfileRate",
    "RetiredBuffers",
    "Streams",
    "ThreadBuffers",
    "Way",
]
