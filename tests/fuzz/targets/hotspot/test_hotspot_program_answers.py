"""What the driver of hotspot-program answers to a trace, with all that may be around its parts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hotspot_sessions import ALLOCATED
from target_helpers import java_folder
from waiting import completed

from fuzz.protocol import actions as do
from fuzz.protocol import trace as traces
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.targets.hotspot.compilers import C1, C2, INTERPRETER
from fuzz.targets.hotspot.find import LIBRARY
from fuzz.targets.hotspot.program_contract import ALLOCATE, DEOPTIMIZE, EACH_TIME, VIRTUAL_THREAD

NAME = "hotspot-program"
DRIVER = ("-m", "fuzz.targets.hotspot.program_driver", NAME)
END_OF_BATCH = "{}\n"
ACTIONS = (
    *(do.EnableSampling(0), do.AllocateNode(1), do.AllocateString(3), do.AllocateArray(4)),
    *(do.Write(0, 1, 2), do.Write(2, 3, 1), do.Read(0, 1), do.Read(2, 3), do.Read(2, 0)),
    *(do.WriteNumber(0, 5), do.ReadNumber(0), do.ReadNumber(1), do.AllocateArray(4)),
    *(do.CopyArray(2, 3, 2, 1, 2), do.TakeIdentity(0), do.CollectMinor(), do.CheckHeap()),
    *(do.Free(1), do.Free(1), do.Read(0, 1), do.AllocateNode(2), do.CollectFull()),
    *(do.Write(0, 0, None), do.CheckHeap(), do.DisableSampling()),
)
NODE, STRING, ARRAY = [1, 5], [2, 3], [3, 4]


@cache
def answers(settings: tuple[tuple[str, int], ...]) -> tuple[Mapping[str, Any], ...]:
    """The contract, and what the actions answer."""
    library = java_folder(ALLOCATED) / LIBRARY
    trace = traces.dumps(Trace(Header(VERSION, NAME, dict(settings)), ACTIONS))
    done = completed([sys.executable, *DRIVER, str(library)], input=trace + END_OF_BATCH)
    return tuple(map(json.loads, done.stdout.splitlines()))


IN_INTERPRETER = (("tier", INTERPRETER), ("rounds_inside", 1))
IN_C1 = (
    *(("tier", C1), ("loop", 1), ("branch", 2), ("catching", 3), ("locked", 4), ("calls", 1)),
    ("callback", ALLOCATE),
)
IN_C2 = (("tier", C2), ("rounds_inside", 1), ("trap", 3), ("callback", DEOPTIMIZE))
IN_VIRTUAL_THREAD = (
    *(("tier", C1), ("locked", 1), ("catching", 2), ("calls", 3), ("callback", ALLOCATE)),
    (VIRTUAL_THREAD, EACH_TIME),
)
ALL_SAMPLED = {"interpreter": IN_INTERPRETER, "C1": IN_C1, "virtual thread": IN_VIRTUAL_THREAD}


@pytest.mark.parametrize("settings", [*ALL_SAMPLED.values(), IN_C2], ids=[*ALL_SAMPLED, "C2"])
def test_a_program_does_what_its_actions_say(settings: tuple[tuple[str, int], ...]) -> None:
    _, *found = answers(settings)
    assert [each["error"] for each in found if "error" in each] == []
    assert [each["value"] for each in found if "value" in each] == [2, 1, 5, 3, 1]
    graphs = [each["graph"] for each in found if "graph" in each]
    before, *after = [[row[:2] for row in graph] for graph in graphs]
    assert before == [NODE, STRING, ARRAY, ARRAY]
    assert after == [[NODE, ARRAY, STRING, ARRAY, [1, 2]]] * 2


@pytest.mark.parametrize("settings", ALL_SAMPLED.values(), ids=ALL_SAMPLED)
def test_with_interval_0_each_object_is_sampled(settings: tuple[tuple[str, int], ...]) -> None:
    _, *found = answers(settings)
    assert [each.get("samples", 0) for each in found] == [int(each.allocates) for each in ACTIONS]
