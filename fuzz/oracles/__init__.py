"""The oracles: each predicts observations from the contract and the actions, in its own file.

They are a second opinion, so none imports the reference or an engine. Read `oracle` first. `bench`
finds all oracles of this folder.
"""

from fuzz.oracles.bench import RERUN_ORACLES, Bench
from fuzz.oracles.oracle import Mismatch, RerunOracle

__all__ = ["RERUN_ORACLES", "Bench", "Mismatch", "RerunOracle"]
