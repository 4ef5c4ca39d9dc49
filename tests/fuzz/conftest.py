"""Targets, contracts, choices that are not random, and an environment for processes."""

import inspect
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import attrs
import pytest
from command_line import Complaint, Gcfuzz

import fuzz
from fuzz.drawing.situation import Choices, Situation
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench
from fuzz.protocol.actions import ACTIONS, Action, name_of
from fuzz.protocol.contract import Contract, Prebuilt, Range, SamplingRule, Setting
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target
from fuzz.targets import TargetOptions, make_target
from fuzz.terminal.exit_codes import BAD_INPUT

OF_FINALIZERS = (
    *("register_finalizer", "unregister_finalizer", "run_finalizers", "resurrect"),
    *("allocate_ephemeron", "read_ephemeron"),
)
OF_OTHERS = (
    *("malloc", "calloc", "realloc", "set_period", "read_profile", "run_at_once"),
    *("check_contents", "allocate_group"),
    *OF_FINALIZERS,
)


class Same(Choices):
    """Always the same choice, or the last one if there are fewer."""

    def __init__(self, choice: int) -> None:
        self._choice = choice

    def below(self, bound: int) -> int:
        return min(self._choice, bound - 1)


class Listed(Choices):
    """Choices from a list, one after another."""

    def __init__(self, *choices: int) -> None:
        self._left = iter(choices)

    def below(self, bound: int) -> int:
        choice = next(self._left)
        assert choice < bound
        return choice


class ChangedReference(FullTarget):
    """The reference, with answers that a function changes; it keeps its traces.

    With `only` it carries out no other actions.
    """

    name = "changed"

    def __init__(
        self,
        change: Callable[[Action, Observation], None] = lambda action, observation: None,
        only: Collection[str] | None = None,
    ) -> None:
        without = [] if only is None else [name for name in ACTIONS if name not in only]
        self._target = make_target("reference", TargetOptions(without=tuple(without)))
        self._change = change
        self.configurations: list[dict[str, int]] = []
        self.traces: list[list[Action]] = []
        self.observations: list[Observation] = []

    def default_contract(self) -> Contract:
        return self._target.start({})

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.configurations.append(dict(configuration))
        self.traces.append([])
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self.traces[-1].append(action)
        observation = self._target.perform(action)
        self._change(action, observation)
        self.observations.append(observation)
        return observation


@pytest.fixture
def changed_reference() -> type[ChangedReference]:
    return ChangedReference


@pytest.fixture
def same() -> type[Same]:
    return Same


@pytest.fixture
def listed() -> type[Listed]:
    return Listed


@pytest.fixture
def simplest() -> Choices:
    return Same(0)


@pytest.fixture
def last() -> Choices:
    return Same(2**62)


@pytest.fixture
def complaint(gcfuzz: Gcfuzz) -> Complaint:
    """Run a command that is bad input; returns its one line on stderr."""

    def run(*arguments: str | Path) -> str:
        printed = gcfuzz(BAD_INPUT, *arguments).err
        assert printed.startswith("gcfuzz: ")
        assert printed.count("\n") == 1
        return printed

    return run


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A terminal's signals interrupt this process and those that it starts, as they do there.

    Tests that run in the background of a script, or under nohup, inherit that they are ignored.
    """
    interrupt = signal.default_int_handler
    before = {each: signal.signal(each, interrupt) for each in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def unmeasured(interruptible: None) -> dict[str, str]:
    """The environment of a process that a test interrupts, and in which no coverage is measured.

    An interrupt that is raised while coverage.py holds its lock leaves it locked, and the process
    waits for it forever. The command line is found in it wherever it works.
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    environment.pop("COVERAGE_PROCESS_CONFIG", None)
    return environment


def _row_of(action: type[Action]) -> str:
    fields = ", ".join(field.name for field in attrs.fields(action) if field.name != "thread")
    observed = [action.answer] if action.answer else []
    if action.allocates:
        observed += ["size"] if action.kind == "block" else ["size", "outside", "at"]
    if action.collects != "never":
        observed += ["minors", "reports"] if "report" in fields else ["minors"]
    text = inspect.cleandoc(action.__doc__ or "").replace("\n", " ").replace("  ", " ")
    return f"| `{name_of(action)}` {fields} | {text} | {', '.join(observed)} |".replace("  ", " ")


@pytest.fixture
def row_of() -> Callable[[type[Action]], str]:
    """Makes an action's row in the table of docs/protocol.md from what its class declares."""
    return _row_of


@pytest.fixture
def reference() -> Target:
    return make_target("reference")


@pytest.fixture
def contract() -> Contract:
    """Nodes 32 bytes, weak references 16, arrays 16 and 8 an item, strings 25 and 1 a character.

    256 bytes of nursery, 64 or more lie outside; prebuilt are a node and an array of four.
    """
    return Contract(
        nursery_bytes=256,
        layout=Layout(
            kinds={
                "node": KindLayout(1, 32),
                "weakref": KindLayout(2, 16),
                "array": KindLayout(3, 16, 8),
                "string": KindLayout(4, 25, 1),
            },
            large_object_bytes=64,
            word_bytes=8,
            object_bytes_max=2**20,
        ),
        sampling=SamplingRule(Range(8, 2**40, 8)),
        settings=(Setting("nursery_bytes", 256, Range(64, 65536, 8)),),
        actions=tuple(name for name in ACTIONS if name not in OF_OTHERS),
        observes=("minors", "value", "alive", "identity"),
        prebuilt=(Prebuilt("node"), Prebuilt("array", 4)),
    )


@pytest.fixture
def finalizing(contract: Contract) -> Contract:
    """The same with PyPy's finalizers and destructors, and ephemerons of 24 bytes."""
    kinds = {**contract.layout.kinds, "ephemeron": KindLayout(5, 24)}
    return attrs.evolve(
        contract,
        layout=attrs.evolve(contract.layout, kinds=kinds),
        actions=(*contract.actions, *OF_FINALIZERS),
        observes=(*contract.observes, "finalized"),
        finalizers=Finalizers(
            order="referrer_first",
            cycles="first_registered",
            weak="cleared_before",
            destructors=True,
        ),
    )


@pytest.fixture(scope="session")
def blocks() -> Contract:
    """Blocks of 8, 16, 32, 64 or 128 bytes, or of whole pages of 256, by three threads.

    Sampling is on, at random distances of 100 bytes; the first are 50, 60 and 70 bytes.
    """
    return Contract(
        nursery_bytes=0,
        layout=Layout(
            kinds={"block": KindLayout(1, 0, 1)},
            large_object_bytes=1,
            word_bytes=1,
            object_bytes_max=4096,
            size_classes=(8, 16, 32, 64, 128),
            page_bytes=256,
        ),
        sampling=SamplingRule(
            Range(1, 4096),
            surplus="dropped",
            samples_per_allocation="one",
            distances="gperftools",
            seeds=(1, 2, 3),
            initial_period_bytes=100,
            first_bytes=(50, 60, 70),
        ),
        actions=(
            *("malloc", "calloc", "realloc", "free", "set_period"),
            *("enable_sampling", "disable_sampling", "pause_sampling", "resume_sampling"),
        ),
        observes=("samples", "size", "minors"),
    )


@pytest.fixture
def shadow(contract: Contract) -> Shadow:
    return Shadow(contract)


@pytest.fixture
def situation(contract: Contract) -> Situation:
    return Situation(contract, Bench(contract))
