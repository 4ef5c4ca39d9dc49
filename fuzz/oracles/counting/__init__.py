"""The clocks: one module for each way to count, with the same name as in `fuzz/protocol/counting`.

Read `clock` first, then `bytes`.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fuzz.oracles.counting.clock import Clock
from fuzz.protocol.contract import Contract


def clocks_of(contract: Contract) -> Sequence[Clock[Any]]:
    """One clock per thread. They count as the contract states."""
    way = import_module(f"{__name__}.{contract.sampling.counting.by}")
    clocks: Sequence[Clock[Any]] = way.clocks_of(contract)
    return clocks
