"""The target incminimark-jit: rpython 0.2.1 with its JIT. Each trace becomes machine code.

The tests share one translation, which stays in the user's cache. It takes six minutes of processor
time. They need what those of incminimark-c need, and libffi's headers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from night import fresh, part_of
from target_helpers import ROOT, Changed, first_failure, options_for
from waiting import PATIENCE_SECONDS

from fuzz.protocol.actions import Action, AllocateWeakref
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.targets import TargetOptions
from fuzz.targets.incminimark import COMPILED
from fuzz.targets.incminimark.find import find_python
from fuzz.targets.incminimark.translation import HERE, TOOLS
from fuzz.targets.process.program import ProcessTarget

OFF, ORDERED, ALL = range(3)
"""The values of `optimizations`."""
LOST_WRITE, LIMIT, BOTH = 1, 2, 3
"""The values of `repaired`."""
MISTAKES = ("no barrier", "rounded down", "short group", "no zero", "no roots")
"""The values of GCFUZZ_PLANTED, from 1."""
SHARE_MIN = 0.8
REWRITTEN_LOOP = ROOT / "tests" / "helpers" / "rewritten_loop.py"


@pytest.fixture(scope="module")
def options() -> TargetOptions:
    if "GCFUZZ_RPYTHON" not in os.environ:
        pytest.skip("python2.7 -m pip install --target DIR rpython==0.2.1; GCFUZZ_RPYTHON=DIR")
    if not all(map(shutil.which, TOOLS)):
        pytest.skip("apt install gcc make")
    return options_for("incminimark-jit")


def target_with(options: TargetOptions, *variables: str, **settings: int) -> Changed:
    command = ("env", *variables, *COMPILED.command_line(options))
    target = ProcessTarget("incminimark-jit", command, options.timeout_seconds)
    return Changed(target, lambda right: right, **settings)


# The collector under the JIT.


@pytest.mark.slow
@pytest.mark.parametrize("optimizations", [OFF, ORDERED, ALL])
def test_with_repairs_a_session_has_no_failure(optimizations: int, options: TargetOptions) -> None:
    target = target_with(options, optimizations=optimizations, repaired=BOTH)
    assert first_failure(target, part_of(100_000), fresh("1")) is None


@pytest.mark.slow
def test_a_session_finds_the_lost_write(options: TargetOptions) -> None:
    failure = first_failure(target_with(options, optimizations=ORDERED, repaired=LIMIT), 5000)
    assert failure is not None
    assert failure.oracle == "heap"


@pytest.mark.slow
def test_a_session_finds_young_arrays_beyond_the_limit(options: TargetOptions) -> None:
    settings = {"optimizations": ORDERED, "variable_lengths": 1, "nursery_bytes": 8192}
    failure = first_failure(target_with(options, repaired=LOST_WRITE, **settings), 5000)
    assert failure is not None
    assert failure.action == "allocate_array"


@pytest.mark.slow
@pytest.mark.parametrize("mistake", range(1, len(MISTAKES) + 1), ids=MISTAKES)
def test_a_planted_mistake_is_found(mistake: int, options: TargetOptions) -> None:
    # Only with all optimizations is an allocation in one group with the next one.
    target = target_with(options, f"GCFUZZ_PLANTED={mistake}", optimizations=ALL, repaired=BOTH)
    assert first_failure(target, 5000) is not None


class CountingAllocations(Changed):
    """Counts the allocations in the nursery, but for weak references, which a call allocates."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.allocations = 0

    def perform(self, action: Action) -> Observation:
        observation = super().perform(action)
        is_weak = isinstance(action, AllocateWeakref)
        self.allocations += observation.outside is False and not is_weak
        return observation


@pytest.mark.slow
def test_machine_code_allocates(options: TargetOptions, tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = {"optimizations": ORDERED, "repaired": BOTH}
    target = CountingAllocations(target_with(options, f"PYPYLOG=jit:{log}", **settings))
    assert first_failure(target, 2000) is None
    inlined = len(re.findall("= call_malloc_nursery", log.read_text("utf-8", "replace")))
    assert inlined >= SHARE_MIN * target.allocations


# The switches.


def rewritten(form: int, options: TargetOptions, *, repaired: int = 0, planted: int = 0) -> str:
    """The operations that the backend gets for one of the helper's loops."""
    python = find_python(options.paths.get("python"))
    done = subprocess.run(
        [str(python), "-B", str(REWRITTEN_LOOP), str(HERE), *map(str, (form, repaired, planted))],
        env={**os.environ, "PYTHONPATH": str(options.paths["source"])},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert "another form" not in done.stderr
    return done.stdout


NULL_STORE, WRITE = r"gc_store\(r0, 8/ci, 0/ci, 8/ci\)", r"gc_store\(r2, 8/ci, r3, 8/ci\)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "repaired", "shown"),
    [
        (0, 0, f"{WRITE}\n{NULL_STORE}"),
        (0, LOST_WRITE, f"(?s:{NULL_STORE}.*{WRITE})"),
        (1, 0, r"zero_array\(r0, 8/ci, 8/ci,"),
        (1, LOST_WRITE, r"zero_array\(r0, 0/ci, 16/ci,"),
    ],
)
def test_the_lost_write_is_repaired(
    form: int, repaired: int, shown: str, options: TargetOptions
) -> None:
    assert re.search(shown, rewritten(form, options, repaired=repaired))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "missing"), [(1, "cond_call_gc_wb_array"), (4, NULL_STORE)], ids=MISTAKES[::3]
)
def test_a_planted_mistake_leaves_something_out(
    planted: int, missing: str, options: TargetOptions
) -> None:
    assert re.search(missing, rewritten(0, options))
    assert not re.search(missing, rewritten(0, options, planted=planted))
