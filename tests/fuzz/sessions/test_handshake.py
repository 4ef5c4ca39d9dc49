"""`gcfuzz check`: tries each action and setting of a contract once, and reports problems."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import Gcfuzz

from fuzz.protocol.actions import ACTIONS, Action, AllocateString, CollectStep
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import HANG, Observation
from fuzz.protocol.target import FullTarget
from fuzz.sessions.handshake import FAILURES_MAX, Handshake, shake_hands
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES
from fuzz.terminal.report import print_handshake
from fuzz.terminal.screen import Screen

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
COUNTER = Path(__file__).parents[3] / "examples" / "python" / "counter.py"
ACTIONS_PROMISED = ("allocate_node", "allocate_string", "free", "collect_minor", "check_heap")


class Odd(FullTarget):
    """The reference, with another contract and other answers."""

    name = "odd"

    def __init__(self, promises: Mapping[str, Any], **answers: Any) -> None:
        self._target = make_target("reference")
        self._promises, self._answers = promises, answers

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = attrs.evolve(self._target.start(configuration), promises=())
        return attrs.evolve(contract, **self._promises)

    def perform(self, action: Action) -> Observation:
        return attrs.evolve(self._target.perform(action), **self._answers)


class NothingStays(Odd):
    """`nonmovable` means nothing to it."""

    def perform(self, action: Action) -> Observation:
        if isinstance(action, AllocateString):
            action = AllocateString(action.length)
        return super().perform(action)


class OnlyAllocates(Odd):
    """All other actions are errors."""

    def perform(self, action: Action) -> Observation:
        return super().perform(action) if action.allocates else Observation(error="Broken: all")


class StringsHang(Odd):
    """It does not answer the allocation of a string in time."""

    def perform(self, action: Action) -> Observation:
        if isinstance(action, AllocateString):
            return Observation(error=f"{HANG}: no answer within 1 s")
        return super().perform(action)


class ASettingDecides(Odd):
    """With smaller nurseries than its default it takes no steps."""

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        self._steps = not configuration
        return contract if self._steps else contract.without(["collect_step"])

    def perform(self, action: Action) -> Observation:
        if isinstance(action, CollectStep) and not self._steps:
            return Observation(error="BadLine: no action is called collect_step")
        return super().perform(action)


@pytest.fixture(scope="module")
def of_reference() -> Handshake:
    return shake_hands(make_target("reference"))


@pytest.mark.parametrize("name", REFERENCES)
def test_every_reference_keeps_to_its_contract(name: str) -> None:
    done = shake_hands(make_target(name))
    assert (done.failures, done.untried, done.silent_fields) == ({}, [], [])


@pytest.mark.slow
def test_every_action_and_setting_is_tried(of_reference: Handshake) -> None:
    assert of_reference.tried == {*of_reference.contract.actions}
    assert {*of_reference.unpromised_actions} == {*ACTIONS} - of_reference.tried
    assert of_reference.values >= 2 * len(of_reference.contract.settings)


@pytest.mark.slow
def test_failures_are_reduced() -> None:
    failures = shake_hands(make_target("reference+sample-on-equality")).failures.values()
    assert {failure.oracle for failure in failures} == {"sampling"}
    assert min(len(failure.actions) for failure in failures) == 2


def test_an_action_is_tried_with_all_its_arguments() -> None:
    promises = {"actions": ("allocate_string", "enable_sampling"), "observes": ("minors", "size")}
    (failure,) = shake_hands(NothingStays(promises)).failures.values()
    assert failure.field == "size"
    action = failure.actions[-1]
    assert isinstance(action, AllocateString)
    assert action.nonmovable


def test_not_all_is_tried_if_all_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    done = shake_hands(OnlyAllocates({}))
    assert len(done.failures) == FAILURES_MAX
    print_handshake(Screen(), done, [], is_verbose=False)
    assert f": {FAILURES_MAX} failures, and the rest not tried" in capsys.readouterr().out


def test_an_action_that_hangs_is_not_tried_again() -> None:
    done = shake_hands(StringsHang({"actions": ACTIONS_PROMISED, "observes": ("minors",)}))
    assert [failure.action for failure in done.failures.values()] == ["allocate_string"]
    assert done.untried == []


def test_an_action_that_a_setting_takes_away_is_not_tried_with_it() -> None:
    promises = {"actions": ("collect_step", "allocate_node"), "observes": ("minors",)}
    done = shake_hands(ASettingDecides(promises))
    assert done.values
    assert (done.failures, done.untried) == ({}, [])


@pytest.mark.parametrize(
    ("actions", "observes", "line"),
    [
        ((), "size", r"reported, but not promised, so no oracle judges it: (?!.*size).*graph.*"),
        ((), "identity", "promised, but never reported: identity"),
        (("unpin",), "size", "promised, but not tried, or never legal: unpin"),
    ],
)
def test_differences_from_the_contract_are_reported(
    actions: tuple[str, ...], observes: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    promises = {"actions": (*ACTIONS_PROMISED, *actions), "observes": ("minors", observes)}
    print_handshake(Screen(), shake_hands(Odd(promises)), [], is_verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert [each for each in lines if re.fullmatch(line, each)]


@pytest.mark.parametrize(
    ("observes", "judge"), [(("minors",), None), (("minors", "size"), "sampling (only size)")]
)
def test_a_contract_that_samples_nothing_is_not_said_to_be_judged_by_sampling(
    observes: tuple[str, ...], judge: str | None
) -> None:
    contract = Odd({"actions": ACTIONS_PROMISED, "observes": observes}).start({})
    judges = Handshake(contract).judges
    assert [each for each in judges if each.startswith("sampling")] == [judge] * (judge is not None)


# The command.


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--target reference-tcmalloc", CLEAN),
        ("--target reference+sample-on-equality", MISMATCH),
        ("--target refernce", BAD_INPUT),
        ("--command ./missing", BAD_INPUT),
    ],
)
def test_the_exit_code_is_that_of_other_commands(arguments: str, code: int, gcfuzz: Gcfuzz) -> None:
    assert (": 0 failures" in gcfuzz(code, "check", *arguments.split()).out) is (code == CLEAN)


@pytest.fixture
def counter(tmp_path: Path) -> Callable[[str, str], str]:
    """The command of the counter in Python, with a change in its source."""

    def change(old: str, new: str) -> str:
        source = COUNTER.read_text()
        assert old in source
        path = tmp_path / "counter.py"
        path.write_text(source.replace(old, new))
        return f"{sys.executable} {path}"

    return change


def test_a_misspelt_contract_gets_one_line_with_the_right_name(
    counter: Callable[[str, str], str], gcfuzz: Gcfuzz
) -> None:
    command = counter('["samples", "size"]', '["sampels", "size"]')
    out, err = gcfuzz(BAD_INPUT, "check", "--command", command)
    problem = "contract: observes lists 'sampels', which is unknown; did you mean `samples`?"
    assert err == f"gcfuzz: {command}: {problem} (`gcfuzz help protocol` defines a contract)\n"
    assert out == ""


def test_all_mistakes_in_a_contract_are_listed_above_the_line_with_the_first(
    counter: Callable[[str, str], str], gcfuzz: Gcfuzz
) -> None:
    command = counter('["samples", "size"]', '["sampels", "sizes"], "pins_max": -1')
    *listed, last = gcfuzz(BAD_INPUT, "check", "--command", command).err.splitlines()
    assert [each.split(" is ")[0] for each in listed] == [
        "contract: pins_max",
        "contract: observes lists 'sampels', which",
        "contract: observes lists 'sizes', which",
    ]
    assert "(the first of 3 mistakes)" in last


def test_a_verbose_check_lists_the_known_names(
    counter: Callable[[str, str], str], gcfuzz: Gcfuzz
) -> None:
    command = counter('"free", ', '"freee", ')
    printed = gcfuzz(BAD_INPUT, "check", "--verbose", "--command", command).out
    assert "known actions: allocate_node, " in printed


@pytest.mark.slow
def test_the_first_line_of_a_failed_check_has_the_problem_and_the_fix(
    counter: Callable[[str, str], str], gcfuzz: Gcfuzz
) -> None:
    command = counter('{"samples": samples', '{"sampels": samples')
    first, *_ = gcfuzz(MISMATCH, "check", "--command", command).out.splitlines()
    assert first.startswith(
        "allocate_string: garbage: the contract observes no sampels; did you mean `samples`?: "
    )
    assert first.endswith("; fix the program or its contract, then check again")


@pytest.mark.parametrize(
    ("verbose", "others"), [([], "42 actions (--verbose lists them)"), (["--verbose"], "fork, ")]
)
def test_a_check_that_succeeds_counts_other_actions_and_ends_with_the_next_command(
    verbose: list[str], others: str, gcfuzz: Gcfuzz
) -> None:
    command = f"{sys.executable} {COUNTER}"
    options = ["--command", command, "--timeout", "20s"]
    *_, unpromised, last = gcfuzz(CLEAN, "check", *options, *verbose).out.splitlines()
    assert unpromised.startswith("not promised, so never tried: ")
    assert others in unpromised
    assert last.startswith("next: ")
    assert shlex.split(last)[1:] == ["gcfuzz", "run", "-x", *options, "--time", "10m"]
