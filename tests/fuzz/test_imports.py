"""Who may import whom: the arrows of ARCHITECTURE.md, checked on the source and at run time."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

import pytest

import fuzz
import gcmodel

SOURCES = {
    ".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts)): path
    for package in (fuzz, gcmodel)
    for folder in [Path(str(package.__file__)).parent]
    for path in sorted(folder.rglob("*.py"))
}
OURS = ("fuzz", "gcmodel")
PLAIN_DATA = {
    *("fuzz.actions", "fuzz.contract", "fuzz.contract_problems", "fuzz.observation"),
    *("fuzz.lines", "fuzz.trace"),
}
SHARED = {*PLAIN_DATA, "fuzz.problems", "fuzz.shadow"}
REFERENCES_AND_BUGS = {
    "fuzz.targets.known_bugs",
    "fuzz.targets.reference",
    "fuzz.targets.reference_blocks",
    "fuzz.targets.reference_dotnet",
    "fuzz.targets.reference_geometric",
    "fuzz.targets.references",
    "fuzz.targets.sampler_bugs",
}
PROFILING = {
    "fuzz.profiling.choice",
    "fuzz.profiling.outputs",
    "fuzz.profiling.programs",
    "fuzz.profiling.report",
    "fuzz.profiling.session",
    "fuzz.profiling.source",
    "fuzz.profiling.traces",
}
"""It shows what the reference allocates, and judges nothing."""
ORACLES = {name for name in SOURCES if name.startswith("fuzz.oracles.")}


@cache
def imports_of(module: str) -> frozenset[str]:
    """The modules that a module imports, wherever in it, in full."""
    package = module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8"))):
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


def loaded_by(statement: str) -> set[str]:
    """The packages that are loaded in a process of its own after `statement`."""
    code = f"{statement}; import sys; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return top_level(set(output.stdout.split()))


def test_the_sources_are_found() -> None:
    assert {"fuzz.cli", "fuzz.oracles.heap", "gcmodel.heap"} <= SOURCES.keys()


def test_gcmodel_imports_neither_fuzz_nor_hypothesis() -> None:
    importers = importers_of("fuzz") | importers_of("hypothesis")
    assert [module for module in importers if module.startswith("gcmodel")] == []


@pytest.mark.parametrize("module", sorted(SHARED))
def test_plain_data_imports_nothing_but_itself(module: str) -> None:
    assert ours(imports_of(module)) <= SHARED


@pytest.mark.parametrize("module", sorted(ORACLES))
def test_an_oracle_imports_plain_data_and_other_oracles(module: str) -> None:
    assert ours(imports_of(module)) <= SHARED | ORACLES


@pytest.mark.parametrize("module", sorted(ORACLES))
def test_an_oracle_imports_no_other_package_than_attrs(module: str) -> None:
    others = top_level(imports_of(module)) - set(OURS) - sys.stdlib_module_names
    assert others <= {"attrs"}


def test_nothing_outside_the_estimators_loads_scipy() -> None:
    assert loaded_by("import fuzz.cli, gcmodel") & {"numpy", "scipy"} == set()


def test_what_needs_no_distribution_does_not_load_scipy() -> None:
    plain = "camp_paulson, heap_v2, jemalloc, profiles, unbiased"
    assert loaded_by(f"from gcmodel.estimation import {plain}") & {"numpy", "scipy"} == set()


def test_only_the_machine_imports_hypothesis() -> None:
    assert importers_of("hypothesis") == {"fuzz.engines.machine"}


def test_only_the_reference_and_its_bugs_import_gcmodel_and_what_profiles_it() -> None:
    importers = {module for module in importers_of("gcmodel") if module.startswith("fuzz")}
    assert importers == REFERENCES_AND_BUGS | PROFILING


def test_only_the_command_line_imports_what_profiles() -> None:
    importers = {
        module
        for module in SOURCES
        if any(imported.startswith("fuzz.profiling") for imported in imports_of(module))
    }
    assert {each for each in importers if not each.startswith("fuzz.profiling")} == {"fuzz.cli"}


def test_the_command_line_does_not_load_hypothesis() -> None:
    loaded = loaded_by("import fuzz.cli")
    assert "fuzz" in loaded
    assert "hypothesis" not in loaded


def test_the_oracles_load_neither_gcmodel_nor_hypothesis() -> None:
    loaded = loaded_by("import fuzz.oracles")
    assert "fuzz" in loaded
    assert loaded & {"gcmodel", "hypothesis"} == set()
