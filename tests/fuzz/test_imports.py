"""Who may import whom: the arrows of ARCHITECTURE.md, checked on the source and at run time.

And how long a file may be.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from waiting import completed

import fuzz
import gcmodel
from fuzz.protocol.counting import WAYS

SOURCES = {
    ".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts)): path
    for package in (fuzz, gcmodel)
    for folder in [Path(str(package.__file__)).parent]
    for path in sorted(folder.rglob("*.py"))
    # The wheel has the documentation, with reproducers of findings, and what `init` copies.
    if path.relative_to(folder).parts[0] not in ("docs", "examples")
}
OURS = ("fuzz", "gcmodel")
HARNESS = {
    "fuzz": "engines failure problems protocol targets.process testing",
    "fuzz.nights": "failure failures files former_names plain problems protocol sessions",
    "fuzz.failures": "cancellation descriptions drawing engines failure files mutator "
    "oracles problems protocol replay run targets targets.bugs version",
    "fuzz.__main__": "signals terminal terminal.commands",
    "fuzz.suggestions": "cancellation drawing engines failures mutator oracles problems protocol "
    "protocol.counting run",
    "fuzz.failure": "descriptions former_names oracles protocol",
    "fuzz.run": "cancellation descriptions drawing failure mutator oracles problems protocol "
    "reached",
    "fuzz.replay": "failure former_names mutator oracles problems protocol run",
    "fuzz.descriptions": "mutator oracles plain protocol",
    "fuzz.cancellation": "",
    "fuzz.files": "problems",
    "fuzz.former_names": "",
    "fuzz.plain": "",
    "fuzz.problems": "",
    "fuzz.signals": "",
    "fuzz.version": "",
    "fuzz.protocol": "files former_names problems protocol.counting",
    "fuzz.protocol.counting": "problems",
    "fuzz.mutator": "protocol",
    "fuzz.oracles": "mutator oracles.counting protocol protocol.counting",
    "fuzz.oracles.counting": "oracles.counting.distances protocol protocol.counting",
    "fuzz.oracles.counting.distances": "",
    "fuzz.drawing": "mutator oracles problems protocol",
    "fuzz.reached": "mutator oracles protocol",
    "fuzz.engines": "cancellation drawing failure oracles protocol reached run",
    "fuzz.targets": "former_names plain problems protocol targets.process",
    "fuzz.targets.process": "cancellation problems protocol",
    "fuzz.targets.allocators": "problems protocol targets targets.process",
    "fuzz.targets.ddtrace": "problems protocol targets targets.process targets.python_profilers",
    "fuzz.targets.dotnet": "problems protocol protocol.counting targets targets.process",
    "fuzz.targets.go": "problems protocol protocol.counting targets targets.process",
    "fuzz.targets.gperftools": "problems protocol protocol.counting "
    "targets targets.allocators targets.process",
    "fuzz.targets.hotspot": "problems protocol protocol.counting targets targets.process",
    "fuzz.targets.incminimark": "problems targets targets.process",
    "fuzz.targets.jemalloc": "problems protocol protocol.counting "
    "targets targets.allocators targets.process",
    "fuzz.targets.ocaml": "problems protocol protocol.counting targets targets.process",
    "fuzz.targets.python_profilers": "problems protocol targets.process",
    "fuzz.targets.scalene": "problems protocol protocol.counting "
    "targets targets.process targets.python_profilers",
    "fuzz.targets.tcmalloc": "problems protocol targets targets.allocators targets.process",
    "fuzz.targets.v8": "problems targets targets.process",
    "fuzz.targets.bugs": "",
    "fuzz.targets.references": "problems protocol protocol.counting targets targets.bugs",
    "fuzz.sessions": "cancellation drawing engines failure failures files former_names oracles "
    "plain problems protocol reached run signals targets targets.bugs targets.process "
    "targets.references version",
    "fuzz.profiling": "files oracles plain problems protocol replay targets targets.references",
    "fuzz.terminal": "descriptions failure failures files former_names mutator nights oracles "
    "plain problems protocol replay sessions suggestions targets targets.bugs "
    "targets.references version",
    "fuzz.terminal.commands": "failure failures files nights plain problems profiling "
    "protocol reached replay sessions suggestions targets targets.bugs terminal version",
    "fuzz.testing": "cancellation engines failure failures files problems "
    "protocol reached replay sessions targets terminal",
}
"""The folders of the harness, and what may stand in the imports of each beside its own modules."""
REFERENCE = {
    "gcmodel": "collector memory sampling",
    "gcmodel.memory": "",
    "gcmodel.sampling": "memory",
    "gcmodel.collector": "memory sampling",
    "gcmodel.estimation": "",
    "gcmodel.blocks": "estimation memory sampling",
    "gcmodel.profiling": "collector estimation memory sampling",
    "gcmodel.workloads": "collector",
}
"""The same of the reference."""
IMPORT_GCMODEL = {"fuzz.targets.bugs", "fuzz.targets.references", "fuzz.profiling"}
"""Only the references, their bugs, and what profiles, which judges nothing."""
MAY_IMPORT = {
    **{folder: {f"fuzz.{name}" for name in names.split()} for folder, names in HARNESS.items()},
    **{
        folder: {f"gcmodel.{name}" for name in names.split()} for folder, names in REFERENCE.items()
    },
}
OF_EACH_TARGET = {"find", "contract", "driver", "mutator", "finalizers_driver"}
"""The names of files that the folders of targets have."""
ORACLES = {name for name in SOURCES if name.startswith("fuzz.oracles.")}

TWO_MEANINGS = {
    # Second opinions: what the reference does, and what the oracle that shares no code says of it.
    "heap": {"fuzz.oracles.heap", "gcmodel.collector.heap"},
    "major": {"fuzz.oracles.major", "gcmodel.collector.major"},
    "arenas": {"fuzz.oracles.arenas", "gcmodel.collector.arenas"},
    "finalizers": {"fuzz.protocol.finalizers", "gcmodel.collector.finalizers"},
    "Finalizers": {"fuzz.protocol.finalizers", "gcmodel.collector.finalizers"},
    "layout": {"fuzz.protocol.layout", "gcmodel.memory.layout"},
    "Finalizer": {"fuzz.oracles.finalization", "gcmodel.collector.finalizers"},
    # What commands are about, and what does it.
    "profile": {"fuzz.terminal.commands.profile", "gcmodel.profiling.profile"},
    "run": {"fuzz.terminal.commands.run", "fuzz.run"},
    "traces": {"fuzz.terminal.commands.traces", "fuzz.profiling.traces"},
    "objects": {"fuzz.mutator.objects", "gcmodel.memory.objects"},
    # What a contract states of a way to count bytes, and the clock that counts so.
    **{by: {f"fuzz.protocol.counting.{by}", f"fuzz.oracles.counting.{by}"} for by in WAYS},
    "contexts": {
        *("fuzz.protocol.counting.contexts", "fuzz.oracles.counting.contexts"),
        "gcmodel.sampling.contexts",
    },
    # What the reference says, and what any target says of the same.
    "Report": {"fuzz.protocol.observation", "gcmodel.memory.events"},
}
"""The names that more than one module or class has, and the modules of each."""
DISTANCES = "fuzz.oracles.counting.distances."
"""Its modules have the contract's names of distances, which are names of systems."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(module: str) -> frozenset[str]:
    """The modules that a module imports, wherever in it, in full."""
    package = module.rpartition(".")[0]
    found = set()
    for node in ast.walk(parsed(SOURCES[module])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            origin = importlib.util.resolve_name(relative, package)
            members = {f"{origin}.{alias.name}" for alias in node.names}
            modules = {member for member in members if member in SOURCES}
            found |= modules | ({origin} if modules != members else set())
    return frozenset(found)


def importers_of(package: str) -> set[str]:
    return {module for module in SOURCES if package in top_level(imports_of(module))}


def top_level(modules: AbstractSet[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def ours(modules: AbstractSet[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] in OURS}


def loaded_by(statement: str, environment: Mapping[str, str] = os.environ) -> set[str]:
    """The modules that are loaded in a process of its own after `statement`."""
    code = f"{statement}; import sys; print(); print(*sys.modules)"
    path = {"PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    output = completed(command, env={**environment, **path})
    return set(output.stdout.splitlines()[-1].split())


def test_no_file_has_more_than_600_lines_but_drivers_for_python_2() -> None:
    """Such a driver is one program without modules of its own."""
    tests = Path(__file__).parents[1]
    files = [*SOURCES.values(), *tests.rglob("*.py"), *tests.parent.glob("benchmarks/*.py")]
    long = {path.name for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 600}
    assert long == {"driver.py", "translated.py"}


def test_the_sources_are_found() -> None:
    assert {
        "fuzz.terminal.commands.cli",
        "fuzz.oracles.heap",
        "gcmodel.collector.heap",
    } <= SOURCES.keys()


@pytest.mark.slow
def test_gcmodel_imports_neither_fuzz_nor_hypothesis() -> None:
    importers = importers_of("fuzz") | importers_of("hypothesis")
    assert [module for module in importers if module.startswith("gcmodel")] == []


def room_of(module: str) -> str:
    """The folder in which a module lies; for one right under a package, the module itself."""
    name = module.removesuffix(".__init__")
    if any(other.startswith(f"{name}.") for other in SOURCES):
        return name
    folder = name.rpartition(".")[0]
    return name if folder in OURS else folder


@cache
def arrows() -> frozenset[tuple[str, str]]:
    """From each folder to those that its modules import."""
    return frozenset(
        (room_of(module), room_of(imported))
        for module in SOURCES
        for imported in ours(imports_of(module))
        if room_of(module) != room_of(imported)
    )


def test_every_room_is_in_the_table() -> None:
    assert {room_of(module) for module in SOURCES} == MAY_IMPORT.keys()


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_a_folder_imports_what_the_table_says_and_nothing_else(folder: str) -> None:
    of_gcmodel = {each for each in REFERENCE if folder in IMPORT_GCMODEL}
    imported = {to for start, to in arrows() if start == folder}
    assert imported - of_gcmodel == MAY_IMPORT[folder]
    assert bool(imported & of_gcmodel) == (folder in IMPORT_GCMODEL)


def test_between_two_rooms_arrows_go_one_way() -> None:
    sorter = TopologicalSorter({folder: set[str]() for folder in MAY_IMPORT})
    for start, to in arrows():
        sorter.add(start, to)
    assert set(sorter.static_order()) == MAY_IMPORT.keys()


def test_no_circle_of_modules_is_left() -> None:
    """Imports for types alone count, too: who reads one of the modules must read all."""
    sorter = TopologicalSorter({module: set[str]() for module in SOURCES})
    for module in SOURCES:
        imported = {each if each in SOURCES else f"{each}.__init__" for each in imports_of(module)}
        sorter.add(module, *(imported & SOURCES.keys()))
    sorter.prepare()


def test_each_folder_says_what_lives_there() -> None:
    for folder in MAY_IMPORT:
        assert ast.get_docstring(parsed(SOURCES.get(f"{folder}.__init__") or SOURCES[folder])), (
            folder
        )


def test_no_two_modules_or_classes_have_one_name_unless_they_are_two_opinions() -> None:
    found: dict[str, set[str]] = {}
    for module, path in SOURCES.items():
        if module.startswith(DISTANCES):
            continue
        classes = [node for node in parsed(path).body if isinstance(node, ast.ClassDef)]
        for name in (module.rpartition(".")[2], *(node.name for node in classes)):
            if not name.startswith("_") and name not in OF_EACH_TARGET:
                found.setdefault(name, set()).add(module)
    assert {name: among for name, among in found.items() if len(among) > 1} == TWO_MEANINGS


def test_the_oracles_import_no_other_packages() -> None:
    others = top_level(frozenset[str]().union(*map(imports_of, ORACLES))) - set(OURS)
    assert others - sys.stdlib_module_names <= {"attrs", "typing_extensions"}


def test_nothing_outside_the_estimators_loads_scipy() -> None:
    assert loaded_by("import fuzz.terminal.commands.cli, gcmodel") & {"numpy", "scipy"} == set()


def test_what_needs_no_distribution_does_not_load_scipy() -> None:
    plain = "camp_paulson, heap_v2, jemalloc, profiles, unbiased"
    assert loaded_by(f"from gcmodel.estimation import {plain}") & {"numpy", "scipy"} == set()


def test_only_the_stateful_engine_imports_hypothesis() -> None:
    assert importers_of("hypothesis") == {"fuzz.engines.stateful"}


def test_the_oracles_load_neither_gcmodel_nor_hypothesis() -> None:
    loaded = top_level(loaded_by("import fuzz.oracles"))
    assert "fuzz" in loaded
    assert loaded & {"gcmodel", "hypothesis"} == set()


COMMAND = "from fuzz.terminal.commands.cli import run_command_line as run; run({!r})"
PROGRAM = """from fuzz.targets import make_target, TargetOptions as Options
make_target('process', Options(('cat',)))"""
RARE = {
    "hypothesis",
    "scipy",
    "rich",
    "psutil",
    "hashlib",
    "difflib",
    "distributed",
    "fuzz.nights.material",
    "fuzz.nights.merge",
    "fuzz.nights.night",
    "fuzz.profiling",
    "fuzz.sessions.cluster",
    "fuzz.sessions.dask_tasks",
    "fuzz.suggestions",
    "fuzz.terminal.night_page",
    "fuzz.terminal.tables",
    "fuzz.terminal.target_tables",
    "gcmodel.profiling",
    "gcmodel.workloads",
    "jinja2",
}
"""What only few commands need: profiles, nights, merge and Dask among them."""
REGISTRY = "importlib.metadata"
"""What only those load that need the registered targets."""
NEVER = {"cattrs", "click", "gcmodel", REGISTRY}
NEEDLESS = {
    "help": (COMMAND.format(["--help"]), {"attr", "gcmodel", "multiprocessing", "fuzz.targets"}),
    "replay": (
        COMMAND.format(["replay", "trace.jsonl"]),
        {"multiprocessing", "fuzz.drawing.draw", "fuzz.targets.bugs", "fuzz.nights"}
        | {"fuzz.failures.corpus", "fuzz.failures.reduce", "email.parser"},
    ),
    "session": (COMMAND.format(["run", "--actions", "1"]), {"logging", "fuzz.sessions.hunt"}),
    "worker": (
        "import fuzz.sessions.worker",
        {"fuzz.nights", "fuzz.sessions.session", *NEVER} - {"gcmodel"},
    ),
    "serve": ("import fuzz, sys; fuzz.serve(None, [], sys.stdout)", NEVER),
    "driver": ("import fuzz.targets.jemalloc.driver", NEVER),
    "program": (PROGRAM, {"click", "gcmodel"}),
}
"""What is started often, and which modules it does not need beside those that none needs."""


@pytest.mark.parametrize("begun", NEEDLESS)
def test_what_is_begun_often_loads_nothing_that_it_does_not_need(
    begun: str, empty_folder: Path, unmeasured: dict[str, str]
) -> None:
    (empty_folder / "trace.jsonl").write_text('{"gcfuzz": 2, "target": "reference"}\n')
    statement, needless = NEEDLESS[begun]
    loaded = loaded_by(statement, unmeasured)
    assert "fuzz" in loaded
    assert loaded & (RARE | needless) == set()


def test_the_list_of_targets_loads_no_session_and_no_oracle(unmeasured: dict[str, str]) -> None:
    loaded = loaded_by(COMMAND.format(["targets"]), unmeasured)
    listing = {"fuzz.terminal.target_tables"}
    assert listing < loaded
    others = {"cattrs", "multiprocessing", "fuzz.oracles", "fuzz.failures", "fuzz.sessions"}
    assert loaded & (RARE - listing | others | {"email.parser"}) == set()


def test_python_looks_for_no_cycles_while_a_command_ends(unmeasured: dict[str, str]) -> None:
    code = """if True:
        import atexit, gc, sys
        atexit.register(lambda: print(gc.get_count()[0], gc.get_freeze_count()))
        from fuzz.__main__ import main
        sys.argv = ["gcfuzz", "--version"]
        main()"""
    output = completed([sys.executable, "-c", code], env=unmeasured)
    collected_later, kept = map(int, output.stdout.splitlines()[-1].split())
    assert collected_later < 100 < kept


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="workers are forked on Linux only")
def test_a_worker_imports_nothing_new(tmp_path: Path, unmeasured: dict[str, str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "fuzz", "run", "--actions", "1"]
    session = completed(command, env=unmeasured, cwd=tmp_path)
    # Every process writes its imports there, also a new one.
    imported = [line.rpartition("|")[2].strip() for line in session.stderr.splitlines()]
    assert [imported.count(each) for each in ("site", "attr", "fuzz.sessions.worker")] == [1, 1, 1]
