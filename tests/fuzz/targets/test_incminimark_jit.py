"""The target incminimark-jit: rpython 0.2.1 with its JIT. Each trace becomes machine code.

The tests share one translation, which stays in the user's cache. It takes ten minutes of processor
time, so all are the night's. They need what those of incminimark-c need, and libffi's headers.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from night import fresh
from target_helpers import ROOT, Changed, first_failure, pypy_options
from waiting import PATIENCE_SECONDS

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action, AllocateWeakref
from fuzz.protocol.lines import action_from_data
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.replay import replay
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.incminimark import COMPILED
from fuzz.targets.incminimark.find import find_python
from fuzz.targets.incminimark.translation import HERE, TOOLS
from fuzz.targets.process.program import ProcessTarget
from fuzz.targets.process.user_programs import output_of

pytestmark = [pytest.mark.slow, pytest.mark.night]

PINS = ("pin", "unpin")
OFF, ORDERED, ALL = range(3)
"""The values of `optimizations`."""
LOST_WRITE, LIMIT, BOTH = 1, 2, 3
"""The values of `repaired`."""
MISTAKES = ("no barrier", "rounded down", "short group", "no zero", "no roots", "no floats")
"""The values of GCFUZZ_PLANTED, from 1."""
FINDINGS = [
    path
    for path in sorted((ROOT / "corpus" / "incminimark").glob("*.jsonl"))
    if traces.read(path).header.target == f"{COMPILED.name}-as-documented"
]
ASK_FOR_FFI = ["gcc", "-E", "-include", "ffi.h", "-x", "c", os.devnull]
SHARE_MIN = 0.8
REWRITTEN_LOOP = ROOT / "tests" / "helpers" / "rewritten_loop.py"


@pytest.fixture(scope="module")
def options() -> TargetOptions:
    options = pypy_options("incminimark-jit", *TOOLS)
    try:
        output_of(ASK_FOR_FFI)
    except BadInputError:
        pytest.skip("apt install libffi-dev")
    return options


Settings = Mapping[str, int]


def target_with(
    options: TargetOptions, settings: Settings, *variables: str, without: Sequence[str] = ()
) -> Changed:
    command = ("env", *variables, *COMPILED.command_line(options))
    target = ProcessTarget("incminimark-jit", command, options.timeout_seconds, without)
    return Changed(target, lambda right: right, **settings)


def with_findings(options: TargetOptions, settings: Settings, *without: str) -> Changed:
    """By the paper's promises, and without the repairs that the settings leave out."""
    settings = {"optimizations": ORDERED, **settings}
    return target_with(options, settings, "GCFUZZ_AS_DOCUMENTED=1", without=without)


# The collector under the JIT.


@pytest.mark.parametrize("failing_guards", [0, 3])
@pytest.mark.parametrize("optimizations", [OFF, ORDERED, ALL])
def test_with_repairs_a_session_has_no_failure(
    optimizations: int, failing_guards: int, options: TargetOptions
) -> None:
    settings = {"optimizations": optimizations, "failing_guards": failing_guards}
    target = target_with(options, settings)
    assert first_failure(target, 20_000, fresh("1")) is None


@pytest.mark.parametrize("without", [PINS, ["allocate_weakref"]], ids=["weakrefs", "pins"])
@pytest.mark.parametrize("optimizations", [OFF, ORDERED])
def test_with_finalizers_a_session_has_no_failure(
    optimizations: int, without: Sequence[str], options: TargetOptions
) -> None:
    """Pins and weak references together have the finding weakref-to-pinned."""
    settings = {"optimizations": optimizations, "nursery_bytes": 1024}
    target = target_with(options, settings, "GCFUZZ_FINALIZERS=1", without=without)
    assert first_failure(target, 2000, fresh("1")) is None


def test_a_session_finds_the_lost_write(options: TargetOptions) -> None:
    target = with_findings(options, {"repaired": LIMIT}, "allocate_group")
    failure = first_failure(target, 5000)
    assert failure is not None
    assert failure.oracle == "heap"


def test_a_session_finds_young_arrays_beyond_the_limit(options: TargetOptions) -> None:
    settings = {"operands_in_memory": 1, "nursery_bytes": 1024, "repaired": LOST_WRITE}
    failure = first_failure(with_findings(options, settings, "allocate_group"), 5000)
    assert failure is not None
    assert failure.action == "allocate_array"


def test_a_session_finds_a_sample_that_names_the_first_of_a_block(options: TargetOptions) -> None:
    failure = first_failure(with_findings(options, {"repaired": BOTH}), 5000)
    assert failure is not None
    assert (failure.oracle, failure.action) == ("members", "allocate_group")


@pytest.mark.parametrize("optimizations", [ORDERED, ALL])
@pytest.mark.parametrize("mistake", range(1, len(MISTAKES) + 1), ids=MISTAKES)
def test_a_planted_mistake_is_found(
    mistake: int, optimizations: int, options: TargetOptions
) -> None:
    settings = {"optimizations": optimizations}
    target = target_with(options, settings, f"GCFUZZ_PLANTED={mistake}")
    assert first_failure(target, 5000) is not None


@pytest.mark.parametrize("path", FINDINGS, ids=[path.stem for path in FINDINGS])
def test_a_finding_is_in_machine_code(path: Path, options: TargetOptions) -> None:
    trace = traces.read(path)
    failure = replay(make_target(trace.header.target, options), trace, path.name)
    assert failure is not None
    assert len(failure.actions) == len(trace.actions)


@pytest.mark.parametrize("path", FINDINGS, ids=[path.stem for path in FINDINGS])
def test_the_interpreter_does_not_have_a_finding(path: Path, options: TargetOptions) -> None:
    trace = traces.read(path)
    target = make_target(trace.header.target, options)
    assert run_actions(target, {**trace.header.config, "optimizations": OFF}, trace.actions) is None


class CountingAllocations(Changed):
    """Counts the objects allocated in the nursery, but for weak references, which a call makes.

    A group is one allocation.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.allocations = 0

    def perform(self, action: Action) -> Observation:
        observation = super().perform(action)
        is_weak = isinstance(action, AllocateWeakref)
        self.allocations += observation.outside is False and not is_weak
        return observation


@pytest.mark.parametrize("operands_in_memory", [0, 1])
def test_machine_code_allocates(
    operands_in_memory: int, options: TargetOptions, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    settings = {"optimizations": ORDERED, "operands_in_memory": operands_in_memory}
    target = CountingAllocations(target_with(options, settings, f"PYPYLOG=jit:{log}"))
    assert first_failure(target, 2000) is None
    inlined = len(re.findall("= call_malloc_nursery", log.read_text("utf-8", "replace")))
    assert inlined >= SHARE_MIN * target.allocations


def test_a_call_is_in_the_middle_of_a_block(options: TargetOptions, tmp_path: Path) -> None:
    """It copies the characters of a string, which is followed by another object of its group."""
    log = tmp_path / "log"
    target = target_with(options, {"optimizations": ORDERED}, f"PYPYLOG=jit:{log}")
    members = [{"kind": "string", "length": 5}, {"kind": "node", "number": 1}]
    group = action_from_data({"do": "allocate_group", "members": members})
    assert run_actions(target, {}, [group]) is None
    operations = re.findall(
        r"= (call_malloc_nursery\(64\)|nursery_ptr_increment)|(copystrcontent)",
        log.read_text("utf-8", "replace"),
    )
    names = " ".join(first or second for first, second in operations)
    assert "call_malloc_nursery(64) copystrcontent nursery_ptr_increment" in names


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


@pytest.mark.parametrize(
    ("planted", "missing"), [(1, "cond_call_gc_wb_array"), (4, NULL_STORE)], ids=MISTAKES[::3]
)
def test_a_planted_mistake_leaves_something_out(
    planted: int, missing: str, options: TargetOptions
) -> None:
    assert re.search(missing, rewritten(0, options))
    assert not re.search(missing, rewritten(0, options, planted=planted))
