"""The target v8: Node's sampling heap profiler, with each sample and its weight predicted.

Tests that need Node are skipped without it: `apt install nodejs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Complaint
from night import fresh, part_of
from scripts import shell_script
from target_helpers import ROOT
from v8_targets import changed_target, command_of, node_program
from waiting import completed

from fuzz.engines.engine import Slice, slices_of
from fuzz.engines.random import RandomEngine
from fuzz.oracles.counting.distances.v8 import PLACE_BITS, V8
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, full
from fuzz.protocol.written import contents_of
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process.program import ProcessTarget
from fuzz.targets.v8.find import SEED

NOT_SAMPLED = (*("disable_sampling", "read", "read_number", "write", "write_number", "copy_array"),)
STARTED = "// The protocol.\n"
"""Here the mutator has found the generator, and reads its first header."""
WRONG_CHARACTER = ("place(allocateString(a));", "place(allocateString(a).slice(0, -1) + '?');")
WRONG_SEED = ("seed++ << PLACE_BITS", "(seed++ + 1n) << PLACE_BITS")
UNREAD = """
const readSync = fs.readSync;
fs.readSync = (file, ...rest) => {
  if (file > 2) throw new Error("V8's memory is read");
  return readSync(file, ...rest);
};
"""
REPRODUCERS = ROOT / "docs" / "findings" / "reproducers" / "v8"
ON, STRING = do.EnableSampling(256), do.AllocateString(100)


@pytest.fixture(scope="module")
def node() -> str:
    return node_program()


@pytest.fixture(scope="module")
def target(node: str) -> FullTarget:
    return full(make_target("v8", TargetOptions(paths={"node": Path(node)})))


def observed(target: FullTarget, *actions: Action, seed: int = 0) -> list[Observation]:
    target.start({"sampler_seed": seed})
    target.announce(actions)
    observations = [target.perform(action) for action in actions]
    assert target.finish() is None
    return observations


def slices(target: FullTarget, actions: int) -> Iterator[Slice]:
    yield from slices_of(RandomEngine(target, "1"), actions, ProbeCounter())


@pytest.mark.slow
def test_each_sample_of_a_session_is_predicted(node: str) -> None:
    options = TargetOptions(paths={"node": Path(node)}, without=NOT_SAMPLED)
    target = full(make_target("v8", options))
    engine = RandomEngine(target, fresh("1"))
    done = list(slices_of(engine, part_of(10_000), ProbeCounter()))
    assert [each.failures for each in done] == [[]] * len(done)
    assert sum(each.actions for each in done) == part_of(10_000)
    assert sum(each.samples for each in done) > part_of(2000)


@pytest.mark.slow
def test_objects_are_read_and_written(target: FullTarget) -> None:
    assert [each for done in slices(target, 2000) for each in done.failures] == []


@pytest.mark.slow
def test_a_wrong_seed_is_found(node: str, tmp_path: Path) -> None:
    target = changed_target(tmp_path, node, *WRONG_SEED)
    assert any(each.failures for each in slices(target, 2000))


@pytest.mark.slow
def test_a_byte_that_changes_in_a_string_is_found(node: str, tmp_path: Path) -> None:
    target = changed_target(tmp_path, node, *WRONG_CHARACTER)
    failure = run_actions(target, {}, [do.AllocateString(20), do.CheckContents()])
    assert failure is not None
    assert failure.oracle == "contents"
    assert failure.expected == f"{contents_of(1, 20)[-1]:02x} at offset 19"
    assert failure.got == "3f"


@pytest.mark.slow
def test_after_its_start_the_mutator_does_not_read_the_generator(node: str, tmp_path: Path) -> None:
    target = changed_target(tmp_path, node, STARTED, STARTED + UNREAD)
    done = list(slices(target, 500))
    assert sum(each.samples for each in done) > 20
    assert [each for one in done for each in one.failures] == []


@pytest.mark.slow
def test_each_enabling_has_the_next_seed(target: FullTarget) -> None:
    first, _, second = (each.seed for each in observed(target, ON, STRING, ON, seed=6))
    assert (first, second) == (6 << PLACE_BITS, 7 << PLACE_BITS)


@pytest.mark.slow
def test_samples_are_at_the_ends_of_distances(target: FullTarget) -> None:
    enabled, *strings = observed(target, ON, *[STRING] * 50)
    assert enabled.seed is not None
    drawn, sampled = V8(enabled.seed), []
    left_bytes = drawn.draw(256)
    for _ in strings:
        is_sampled = left_bytes <= 120
        left_bytes = drawn.draw(256) if is_sampled else left_bytes - 120
        sampled.append(int(is_sampled))
    assert [each.samples for each in strings] == sampled
    assert {tuple(each.weights) for each in strings} == {(), (3 * 120,)}


@pytest.mark.slow
def test_reads_return_what_was_written(target: FullTarget) -> None:
    node, number = do.AllocateNode(2**62 + 1), do.ReadNumber(0)
    actions = (node, number, do.AllocateArray(3), STRING, STRING, do.Write(1, 2, 3), do.Read(1, 2))
    observations = observed(target, *actions)
    assert (observations[1].value, observations[-1].value) == (2**62 + 1, 3)
    assert (
        observed(target, STRING, do.Free(0), do.AllocateArray(7), do.ReadNumber(0))[-1].value == 7
    )


@pytest.mark.slow
def test_the_reproducer_shows_the_finding(node: str) -> None:
    script = REPRODUCERS / "whole_objects.js"
    assert "fuzz" not in script.read_text("utf-8")
    done = completed([node, str(script)], check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(re.findall(r"\d % of that reported", done.stdout)) == 2


@pytest.mark.slow
@pytest.mark.night
@pytest.mark.parametrize("name", ["folded_objects.js", "inlined_functions.js"])
def test_optimized_code_shows_the_finding(name: str, node: str) -> None:
    done = completed([node, "--allow-natives-syntax", str(REPRODUCERS / name)], check=False)
    assert done.returncode == 1, done.stdout + done.stderr


def test_another_generator_is_bad_input(node: str) -> None:
    command = command_of(node, SEED, "--random-seed=2")
    with pytest.raises(BadInputError, match=r"V8's generator has 0 possible places \(Node v"):
        ProcessTarget("process", command, 60).start({})


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 15.0.1", "its version of V8, '15.0.1', is not known; name a Node of version 20 to"),
        ("exit 1", "fails: exit code 1"),
    ],
)
def test_an_unknown_v8_and_no_node_are_refused_in_one_line(
    script: str, reason: str, tmp_path: Path, complaint: Complaint
) -> None:
    program = shell_script(tmp_path / "node", script)
    line = complaint("run", "--target", "v8", "--node", program)
    assert f"{program}" in line
    assert reason in line
