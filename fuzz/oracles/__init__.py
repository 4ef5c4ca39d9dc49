"""The oracles: each predicts observations from the contract and the actions, in its own file.

They are the second opinion. None imports the reference or the engines, and each raises its own
subclass of Mismatch. A newcomer begins with `oracle`; `bench` finds all that are written here.
"""

from fuzz.oracles.bench import RERUN_ORACLES, Bench
from fuzz.oracles.oracle import Mismatch, RerunOracle

__all__ = ["RERUN_ORACLES", "Bench", "Mismatch", "RerunOracle"]
