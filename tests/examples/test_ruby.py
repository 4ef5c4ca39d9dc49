"""CRuby behind the protocol: clean under what it does; its documentation's contract is not kept."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from night import fresh, part_of
from target_helpers import Changed, first_failure
from waiting import PATIENCE_SECONDS

from fuzz.protocol import trace as traces
from fuzz.protocol.actions import UnregisterFinalizer
from fuzz.protocol.contract import Contract
from fuzz.targets.process.program import ProcessTarget

pytestmark = pytest.mark.slow

ADAPTER = Path(__file__).parents[2] / "examples" / "ruby" / "adapter.rb"
CLEAN, MISMATCH = 0, 1
ACTIONS = 5_000
ANSWER_SECONDS = 60.0

Session = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def command(need: Callable[..., None]) -> list[str]:
    """CRuby 3.1, without rubygems, which starts and collects sooner."""
    need("ruby")
    ruby = ["ruby", "--disable=gems"]
    version = [*ruby, "-e", "exit RUBY_ENGINE == 'ruby' && RUBY_VERSION.start_with?('3.1')"]
    if subprocess.run(version, check=False, timeout=PATIENCE_SECONDS).returncode:
        pytest.skip("apt-get install ruby, of Debian 12: the contract is that of CRuby 3.1")
    return [*ruby, str(ADAPTER)]


@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_a_session_is_clean(command: list[str], session: Session, engine: str) -> None:
    count = part_of(250_000 if engine == "random" else 25_000)
    plan = ["--actions", str(count), "--seed", fresh("1"), "--engine", engine]
    assert session(shlex.join(command), *plan) == (CLEAN, [])


def test_the_schema_takes_each_line_of_the_adapter(
    command: list[str], refused: Callable[[str], list[str]]
) -> None:
    assert refused(shlex.join(command)) == []


def test_the_contract_of_the_documentation_finds_dangling_weak_references(
    command: list[str], session: Session, tmp_path: Path
) -> None:
    code, failures = session(shlex.join([*command, "--as-documented"]), "-x")
    assert code == MISMATCH
    trace = traces.read(tmp_path / "corpus" / str(failures[0]["path"]))
    assert any(isinstance(action, UnregisterFinalizer) for action in trace.actions)


MISTAKES: Mapping[str, Mapping[str, Any]] = {
    "objects": {"objects": "kept"},
    "order": {"order": "reverse_registration"},
}


@pytest.mark.parametrize("key", MISTAKES)
def test_a_contract_with_one_mistake_is_found(command: list[str], key: str) -> None:
    def change(contract: Contract) -> Contract:
        assert contract.finalizers is not None
        finalizers = attrs.evolve(contract.finalizers, **MISTAKES[key])
        return attrs.evolve(contract, finalizers=finalizers)

    target = ProcessTarget("ruby", command, ANSWER_SECONDS)
    assert first_failure(Changed(target, change), ACTIONS) is not None
