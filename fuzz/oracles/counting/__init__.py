"""The clocks: one module for each way to count, of the same name as in `fuzz/protocol/counting`.

A newcomer begins with `clock`, then `bytes`.
"""

from collections.abc import Sequence
from importlib import import_module

from fuzz.oracles.counting.clock import Clock
from fuzz.protocol.contract import Contract


def clocks_of(contract: Contract) -> Sequence[Clock]:
    """A clock for each thread, which counts as the contract states."""
    way = import_module(f"{__name__}.{contract.sampling.counting.by}")
    clocks: Sequence[Clock] = way.clocks_of(contract)
    return clocks
