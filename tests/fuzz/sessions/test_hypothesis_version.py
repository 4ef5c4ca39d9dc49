"""The stateful engine's traces depend on the version of Hypothesis: records and traces name it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import attrs
import pytest
from command_line import Gcfuzz
from made_records import failure, piece, record, timing

from fuzz.failure import Failure
from fuzz.failures.corpus import Origin, save_found
from fuzz.nights.merge import merged_records
from fuzz.protocol import lines as wire
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import CheckHeap
from fuzz.protocol.trace import Found, Header, Trace
from fuzz.sessions import record as records
from fuzz.sessions.plan import Plan
from fuzz.sessions.record import SessionRecord
from fuzz.targets import chunk_actions_of
from fuzz.terminal.commands.cli import run_command_line

CLEAN = 0
HERE = version("hypothesis")
OTHER = "6.140.0"
FAILURE = Failure("heap", "value", "check_heap", "differs", "1", "2", "why", actions=(CheckHeap(),))
RESUMED = "run --engine stateful --target reference --actions 64 --seed 3 --resume --corpus"


def made(hypothesis: str | None) -> SessionRecord:
    versions = {} if hypothesis is None else {"hypothesis": hypothesis}
    data = record(failure(), timing=[timing(versions=versions)], pieces=[piece(chunks=(0, 1, 1))])
    del data["gcfuzz_session"], data["totals"]
    return wire.structured(data, SessionRecord)


@pytest.mark.parametrize(("engine", "named"), [("random", None), ("stateful", HERE)])
def test_stateful_traces_name_the_version(engine: str, named: str | None, tmp_path: Path) -> None:
    saved = save_found(Origin(tmp_path, "reference", engine, 1), FAILURE)
    assert saved.path is not None
    found = traces.read(saved.path).header.found
    assert found is not None
    assert found.hypothesis == named
    assert ("hypothesis" in saved.path.read_text()) == (named is not None)


@pytest.mark.parametrize(("engine", "named"), [("random", None), ("stateful", HERE)])
def test_stateful_records_name_the_version(engine: str, named: str | None, tmp_path: Path) -> None:
    plan = Plan("reference", engine, 1, 1, tmp_path)
    assert records.versions_of(plan).get("hypothesis") == named


def test_reducing_a_trace_again_keeps_the_version(tmp_path: Path) -> None:
    target, path = "reference+one-sample-per-object", tmp_path / "trace.jsonl"
    header = Header(traces.VERSION, target, found=Found("x", "x", "stateful", hypothesis=OTHER))
    lines = '{"do": "enable_sampling", "period_bytes": 8}\n{"do": "allocate_node", "number": 0}\n'
    path.write_text(traces.dumps(Trace(header, ())) + lines)
    out = tmp_path / "reduced"
    run_command_line(["reduce", str(path), "--corpus", str(out)])
    [reduced] = out.glob("*.jsonl")
    found = traces.read(reduced).header.found
    assert found is not None
    assert (found.engine, found.hypothesis) == ("stateful", OTHER)


@pytest.mark.parametrize("drawn_with", [(OTHER, HERE, "6.99.1", OTHER), (HERE, None), (None,)])
def test_a_replay_says_in_one_line_that_another_version_drew(
    drawn_with: tuple[str | None, ...], tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    for number, hypothesis in enumerate(drawn_with):
        found = Found("heap", "made up", "stateful", hypothesis=hypothesis)
        trace = Trace(Header(traces.VERSION, "reference", found=found), (CheckHeap(),))
        traces.write_to(trace, tmp_path / f"{number}.jsonl")
    printed = gcfuzz(CLEAN, "replay", tmp_path).out
    said = [line for line in printed.splitlines() if "Hypothesis" in line]
    others = f"these traces were drawn with Hypothesis {OTHER} and 6.99.1, and this is {HERE}: "
    assert said == [f"{others}the same seeds draw others here"] * (OTHER in drawn_with)


@pytest.mark.slow
@pytest.mark.parametrize("drawn_with", [OTHER, None])
def test_a_resumed_session_says_in_one_line_that_another_version_drew(
    drawn_with: str | None, tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    size = chunk_actions_of("reference")
    plan = Plan("reference", "stateful", 3, 1, tmp_path, actions=64, chunk_actions=size)
    (tmp_path / "sessions").mkdir()
    earlier = attrs.evolve(made(drawn_with), plan=plan.key, failures=())
    records.write(earlier, records.path_for(plan))
    printed = gcfuzz(CLEAN, *RESUMED.split(), tmp_path).out
    said = [line for line in printed.splitlines() if "Hypothesis" in line]
    line = f"resumed: earlier chunks were drawn with Hypothesis {OTHER}, and this is {HERE}: "
    assert said == [f"{line}no one session draws both"] * (drawn_with == OTHER)


def test_records_of_two_versions_are_not_added_up() -> None:
    assert len(merged_records([made(OTHER), made(HERE)])) == 2
    assert len(merged_records([made(HERE), made(HERE)])) == 1


def test_a_record_is_not_replaced_by_that_of_another_version(tmp_path: Path) -> None:
    for each in (None, OTHER, HERE, HERE):
        records.save(made(each), tmp_path / "s.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.2.json", "s.3.json", "s.json"]
