"""Files and commands of earlier versions name oracles and targets that have other names now."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import attrs
import pytest

from fuzz.failure import Failure
from fuzz.failures.corpus import SavedFailure
from fuzz.former_names import ORACLES, TARGETS
from fuzz.nights import failure_history as history
from fuzz.nights.failure_history import KnownFailure
from fuzz.oracles.bench import ORACLES as PRESENT_ORACLES
from fuzz.protocol import lines as wire
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode
from fuzz.protocol.trace import Found, Header, Trace
from fuzz.sessions.plan import PlanKey
from fuzz.targets import chunk_actions_of, registry
from fuzz.terminal.commands.cli import run_command_line

HISTORY_OF_0_1_0 = """\
{"kind": "history", "version": 1}
{"kind": "failure", "target": "hotspot-at-once", "name": "", "cause": ["broke", "room", "at", \
"more", "allocate"], "saved": {"failure": {"oracle": "room", "field": "at", "action": \
"allocate_node", "direction": "more", "expected": "0", "got": "8", "why": "made up"}, "path": \
null, "length": 3, "reduced_from": 9, "chunk": 0, "reproduced": true}}
{"kind": "triaged", "at": "2026-11-20T04:00:00+00:00", "failure": "541a0877", "muted_until": \
"2026-12-24"}
"""
"""With the id that 0.1.0 gave to the failure's cause."""


def failure(oracle: str) -> Failure:
    return Failure(oracle, "at", "allocate_node", "more", "0", "8", "made up")


def test_present_names_exist_and_former_ones_do_not() -> None:
    oracles = {each.name for each in PRESENT_ORACLES}
    assert {*ORACLES.values()} <= oracles
    assert {*TARGETS.values()} <= registry().targets.keys()
    assert not oracles & ORACLES.keys()
    assert not registry().targets.keys() & TARGETS.keys()


@pytest.mark.parametrize(("former", "name"), ORACLES.items())
def test_failures_of_one_oracle_have_one_identity(former: str, name: str) -> None:
    data = wire.unstructured(failure(name)) | {"oracle": former}
    assert wire.structured(data, Failure) == failure(name)


def test_a_mute_of_0_1_0_holds(tmp_path: Path) -> None:
    path = tmp_path / history.NAME
    path.write_text(HISTORY_OF_0_1_0)
    cause = ("broke", "placement", "at", "more", "allocate")
    saved = SavedFailure(failure("placement"), None, 4, 8, 1, reproduced=True)
    found = KnownFailure("hotspot-concurrent", "", cause, saved)
    (life,) = history.read(path).lives([found]).values()
    assert found in life.traces
    assert life.mute(date(2026, 12, 1))


@pytest.mark.parametrize(("former", "name"), TARGETS.items())
def test_a_target_is_chosen_and_recorded_by_either_name(former: str, name: str) -> None:
    assert chunk_actions_of(former) == chunk_actions_of(name)
    key = PlanKey(name, (), (), None, "random", 5, None)
    assert attrs.evolve(key, target=former) == key


@pytest.mark.parametrize("former", TARGETS)
def test_a_trace_keeps_its_text_and_its_digest(former: str) -> None:
    header = Header(traces.VERSION, former, found=Found("room", "room: at: …", "random"))
    trace = Trace(header, (AllocateNode(1),))
    text = traces.dumps(trace)
    assert traces.dumps(traces.loads(text, "trace")) == text
    renamed = attrs.evolve(trace, header=attrs.evolve(header, target=TARGETS[former]))
    assert traces.digest_of(trace) == traces.digest_of(renamed)


@pytest.mark.parametrize("former", TARGETS)
def test_the_command_line_knows_a_former_target(
    former: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    traces.write_to(Trace(Header(traces.VERSION, former), (AllocateNode(1),)), path)
    for arguments in (["replay", str(path)], ["check", "--target", former]):
        run_command_line([*arguments, "--java", str(tmp_path)])
        assert "unknown target" not in "".join(capsys.readouterr())
