"""HotSpot with threads at once, and one mistake, which the command line names."""

import sys
from collections.abc import Mapping
from typing import Any

from fuzz.protocol.actions import RunAtOnce
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.targets.hotspot.at_once_driver import AtOnceTarget
from fuzz.targets.hotspot.share_class import CODE, RUN, share_class
from fuzz.targets.process.serve import serve

KEEPING = "aload 0; iload 7; aload 6; aastore"
READING = "getfield bytes; arraylength"


class Losing(AtOnceTarget):
    """The table does not get what is made."""

    CODE = share_class({**CODE, RUN: CODE[RUN].replace(KEEPING, "")})


class Mixing(AtOnceTarget):
    """The threads race for one table."""

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        self._tables[1:] = self._tables[:1] * len(self._tables[1:])
        return contract


class SamplingWhileOff(AtOnceTarget):
    """The event is on whenever threads run at once."""

    def _run_at_once(self, action: RunAtOnce) -> Observation:
        self._machine.tell_samples(is_on=True)
        return super()._run_at_once(action)


class SamplingRarely(AtOnceTarget):
    """Half as often as asked for."""

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        set_interval = type(self._machine).set_interval
        machine: Any = self._machine
        machine.set_interval = lambda size: set_interval(machine, 2 * size)
        return contract


MISTAKES = {
    "losing": Losing,
    "mixing": Mixing,
    "while-off": SamplingWhileOff,
    "rarely": SamplingRarely,
}

if __name__ == "__main__":
    library, mistake = sys.argv[1:]
    serve(MISTAKES[mistake](library), sys.stdin, sys.stdout)
