"""A thousand corrupted answers: a changed checked value is a mismatch, and nothing else breaks.

The reference answers through a pipe, with one wrong answer in each trace. Values that no oracle can
predict stay: the first identity of an object, whether an unreachable object is dead yet, the
figures of memory.
"""

import copy
import json
import random
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from night import fresh, part_of
from waiting import check_none_is_left

from fuzz.engines.random import RandomEngine
from fuzz.oracles import RERUN_ORACLES
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action, Read, ReadNumber
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.lines import to_line, unstructured
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.reached.probes import ProbeCounter
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.terminal.commands.cli import run_command_line
from gcmodel import Parts

ADAPTER = Path(__file__).with_name("corrupting_adapter.py")
CORRUPTIONS = part_of(500)
TRACES = 25
PLAN = "plan.json"
ACTIONS_MAX = 40
NO_OBJECTS = ("", " ", "null", "3", "[]", '"{}"', "{", "[" * 9999)
Data = dict[str, Any]
Runs = list[tuple[dict[str, int], Contract, list[tuple[Action, Observation]]]]
SETTING = Setting("corruption", 0, Range(0, CORRUPTIONS))
SLOW_SHARE = 0.02
pytestmark = pytest.mark.slow


class Recorder(ReferenceTarget):
    """Keeps each trace and its answers.

    Pinning, memory pressure and callbacks are left out, since the oracles know only bounds of them.
    """

    def __init__(self) -> None:
        super().__init__("reference", Parts(), ("pin", "add_memory_pressure", "set_callback"))
        self.runs: Runs = []

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        stated = attrs.evolve(contract, settings=(*contract.settings, SETTING))
        self.runs.append((dict(configuration), stated, []))
        return contract

    def perform(self, action: Action) -> Observation:
        observation = super().perform(action)
        self.runs[-1][2].append((action, observation))
        return observation


@pytest.fixture(scope="module")
def runs() -> Runs:
    """Traces with their configurations and correct answers."""
    recorder = Recorder()
    engine = RandomEngine(recorder, "corruptions")
    recorder.runs.clear()
    for number in range(1, 2 * TRACES, 2):  # Traces with even numbers may run twice.
        assert not engine.run_slice(number, ACTIONS_MAX, ProbeCounter()).failures
    return recorder.runs


def other_samples(data: Data, rng: random.Random) -> Data:
    samples = data.get("samples", 0) + 1
    order = {"order": "s" + data.get("order", "")} if rng.random() < 0.5 else {}
    return {"samples": samples, **order}


def other_entries(data: Data, rng: random.Random) -> Data:
    reports = copy.deepcopy(data["reports"])
    entries = reports[0]["entries"]
    index = rng.randrange(len(entries))
    if rng.random() < 0.3:
        del entries[index]
    else:
        entries[index] ^= rng.choice((1, 2, 4))
    return {"reports": reports}


def other_graph(data: Data, rng: random.Random) -> Data:
    rows = copy.deepcopy(data["graph"])
    row = rng.randrange(len(rows))
    if rng.random() < 0.2:
        del rows[row]
    else:
        rows[row][rng.randrange(len(rows[row]))] += 1
    return {"graph": rows}


def other_pointer(data: Data, rng: random.Random) -> Data:
    name = rng.choice(("free", "limit", "top", "sample_point"))
    return {name: data.get(name, 0) + rng.choice((-8, 8, 1))}


def missing(data: Data, rng: random.Random) -> Data:
    names = ("size", "free", "limit", "top", "state")
    return {rng.choice([name for name in names if name in data]): None}


Lie = tuple[Callable[[Action, Data], bool], Callable[[Data, random.Random], Data]]
LIES: list[Lie] = [
    (lambda action, data: True, other_samples),
    (lambda action, data: True, lambda data, rng: {"minors": data.get("minors", 0) + 1}),
    (
        lambda action, data: True,
        lambda data, rng: {"order": data.get("order", "") + rng.choice("sMR")},
    ),
    (
        lambda action, data: action.allocates,
        lambda data, rng: {"size": data["size"] + rng.choice((-8, 8, 1))},
    ),
    (lambda action, data: action.allocates, lambda data, rng: {"outside": not data["outside"]}),
    (lambda action, data: action.allocates, lambda data, rng: {"at": data.get("at", 0) + 8}),
    (
        lambda action, data: isinstance(action, Read | ReadNumber),
        lambda data, rng: {"value": data.get("value", -1) + 1},
    ),
    (lambda action, data: bool(data.get("reports")), other_entries),
    (lambda action, data: bool(data.get("graph")), other_graph),
    (lambda action, data: True, other_pointer),
    (lambda action, data: True, lambda data, rng: {"state": rng.choice((-1, 4, 99))}),
    (lambda action, data: True, missing),
    (
        lambda action, data: "alive" in data or "identity" in data,
        lambda data, rng: {"alive" if "alive" in data else "identity": None},
    ),
]
"""Where each applies, and the fields that it changes; None removes a field."""


def lie_about(action: Action, data: Data, rng: random.Random) -> Data:
    """A wrong answer instead of the correct one."""
    lie = rng.choice([lie for is_possible, lie in LIES if is_possible(action, data)])
    lied = {**data, **lie(data, rng)}
    assert lied != data
    lied = {name: value for name, value in lied.items() if value is not None}
    return {"do": "say", "with": to_line(lied)}


def break_at(_: Action, data: Data, rng: random.Random) -> Data:
    """An unreadable answer, or none, instead of the correct one."""
    line = to_line(data)
    field = rng.choice(list(data))
    if rng.random() < SLOW_SHARE:
        return rng.choice(
            [
                {"do": "nothing", "with": ""},
                {"do": "hang", "with": ""},
                {"do": "close", "with": ""},
                {"do": "flood", "with": str(2**24 + 1)},
            ]
        )
    wrong_type = to_line({**data, field: rng.choice(["1", 1.5, {}, [None], [[True]], "x" * 999])})
    return rng.choice(
        [
            {"do": "say", "with": line[: rng.randrange(len(line))]},
            {"do": "say", "with": line + rng.choice(["}", ",", "{}", " x", "\x00"])},
            {"do": "say", "with": line + "\n" + line},
            {"do": "say", "with": wrong_type},
            {"do": "say", "with": to_line({**data, "sample": 1})},
            {"do": "say", "with": f'{{"{field}": 1, {line[1:]}'},
            {"do": "say", "with": rng.choice(NO_OBJECTS)},
            {"do": "say", "with": '{"samples": ' + rng.choice(["NaN", "1e9", "9" * 5000]) + "}"},
            {"do": "bytes", "with": rng.randbytes(rng.randint(1, 40)).hex() + "ff"},
            {"do": "exit", "with": str(rng.choice([0, 1, 139]))},
            {"do": "signal", "with": rng.choice(["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM"])},
        ]
    )


@pytest.fixture(autouse=True)
def _no_process_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    check_none_is_left(str(tmp_path / PLAN))


def replay_all(
    folder: Path, runs: Runs, corrupted: Callable[[Action, Data, random.Random], Data]
) -> int:
    """Replay each corruption as a trace; returns the exit code."""
    corruptions = []
    for number in range(1, CORRUPTIONS + 1):
        rng = random.Random(int(fresh(str(number))))
        run = rng.randrange(len(runs))
        configuration, _, steps = runs[run]
        answer = rng.randrange(len(steps))
        action, observation = steps[answer]
        instead = corrupted(action, unstructured(observation), rng)
        corruptions.append({"run": run, "answer": answer, **instead})
        header = Header(VERSION, "process", {**configuration, "corruption": number})
        trace = Trace(header, tuple(action for action, _ in steps))
        traces.write_to(trace, folder / f"{number:03}.jsonl")
    recorded = [
        {
            "contract": to_line({"contract": unstructured(contract)}),
            "answers": [to_line(unstructured(answer)) for _, answer in steps],
        }
        for _, contract, steps in runs
    ]
    plan = folder / PLAN
    plan.write_text(json.dumps({"runs": recorded, "corruptions": corruptions}), encoding="utf-8")
    command = shlex.join([sys.executable, "-E", "-S", str(ADAPTER), str(plan)])
    return run_command_line(["replay", str(folder), "--command", command, "--timeout", "1s"])


def check_all_failed(code: int, printed: str) -> None:
    """Each trace fails, and none fails because the adapter cannot repeat it."""
    passed = [line for line in printed.splitlines() if line.startswith("passed")]
    assert (code, passed) == (1, [])
    assert f"0 passed, {CORRUPTIONS} failed" in printed
    oracles = {line.split()[1] for line in printed.splitlines() if line.startswith("  oracle ")}
    assert "heap" in oracles
    assert oracles.isdisjoint(RERUN_ORACLES)


@pytest.mark.parametrize("corrupted", [lie_about, break_at])
def test_each_corruption_fails(
    corrupted: Callable[[Action, Data, random.Random], Data],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    runs: Runs,
) -> None:
    code = replay_all(tmp_path, runs, corrupted)
    printed = capsys.readouterr()
    assert printed.err == ""
    check_all_failed(code, printed.out)
