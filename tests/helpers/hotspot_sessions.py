"""What the tests of HotSpot's virtual machines share: versions, settings, and a mistaken driver."""

from __future__ import annotations

from pathlib import Path

from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import Buffers

MISTAKEN = Path(__file__).with_name("mistaken_hotspot.py")
AHEAD, ALLOCATED = "17", "25"
"""The virtual machines under test, named after what they charge."""
AS_DOCUMENTED = "hotspot-as-documented"
AS_USUAL = {
    "collector": 0,
    "buffer_bytes": 2048,
    "heap_scale": 1,
    "pointer_bytes": 4,
    "header_bytes": 12,
}


def buffers_of(contract: Contract) -> Buffers:
    assert isinstance(contract.sampling.counting, Buffers)
    return contract.sampling.counting
