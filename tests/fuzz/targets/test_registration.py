"""Targets register themselves: those of other packages too, and nothing else names one."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import pytest
from target_helpers import BAD_INPUT, CLEAN, MISMATCH
from waiting import completed

import fuzz
from fuzz.problems import BadInputError
from fuzz.protocol.contract import Distances
from fuzz.targets import NO_OPTIONS, REFERENCE, TargetOptions, is_program, make_target, registry
from fuzz.targets.registration import InProcess, Program, lazily, python_driver

PACKAGE = Path(str(fuzz.__file__)).parent
REGISTRATION = """
from fuzz.targets.registration import PathOption, Program, python_driver

def command(name, options):
    return python_driver(__package__, name, options.paths.get("counter-file", "-"))

OPTION = PathOption("counter-file", "A file with the mistake of counter.")
TARGETS = (
    Program(name="counter", description="a counter", options=(OPTION,), command=command),
)
"""
KEPT_REGISTRATION = """
from fuzz.targets.process.user_programs import cache_folder
from fuzz.targets.registration import Program

def command(name, options):
    return (str(cache_folder() / "program"),)

TARGETS = (Program(name="kept", description="in the cache", command=command),)
"""
DRIVER = """
from pathlib import Path
from fuzz import Contract, KindLayout, Layout, Range, SamplingRule, actions
from fuzz.targets.process.driver import Driver

class Counter(Driver):
    settings = ()

    def __init__(self, name, path):
        super().__init__(name)
        self.is_wrong = path != "-" and "wrong" in Path(path).read_text()

    def begin(self, chosen):
        self.period_bytes = self.counted_bytes = 0
        kinds = {"string": KindLayout(type_index=1, fixed_bytes=16, item_bytes=1)}
        layout = Layout(kinds, large_object_bytes=2049, word_bytes=1, object_bytes_max=2048)
        rule = SamplingRule(period_bytes=Range(1, 2**20), disabling=("drop",))
        return Contract(1024, layout, self.actions, ("samples", "size"), rule, version="1.0")

    def allocate(self, size_bytes):
        if self.period_bytes:
            self.counted_bytes += size_bytes
            while self.counted_bytes + self.is_wrong > self.period_bytes:
                self.counted_bytes -= self.period_bytes
                self.observation.samples += 1
        return size_bytes

    def sample(self, period_bytes):
        self.period_bytes, self.counted_bytes = period_bytes, 0

    CARRY_OUT = {
        actions.AllocateString: lambda driver, each: driver.allocate(16 + each.length),
        actions.Free: lambda driver, each: None,
        actions.EnableSampling: lambda driver, each: driver.sample(each.period_bytes),
        actions.DisableSampling: lambda driver, each: driver.sample(0),
    }

if __name__ == "__main__":
    Counter.main()
"""


class Site:
    """A folder of installed packages, and commands that are run with it on Python's path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "site"

    def install(self, package: str, entries: str, **modules: str) -> None:
        information = self.packages / f"{package}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        (information / "entry_points.txt").write_text(f"[gcfuzz.targets]\n{entries}\n")
        folder = self.packages / package
        folder.mkdir()
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)

    def run(
        self, *arguments: str, code: int = CLEAN, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        places = {"PYTHONPATH": str(self.packages), "COLUMNS": "300"}
        environment = {**os.environ, **places, **variables}
        done = completed(
            [sys.executable, "-m", "fuzz", *arguments],
            cwd=self.folder,
            env=environment,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def counter(site: Site) -> Site:
    site.install("counters", "mine = counters:TARGETS", __init__=REGISTRATION, driver=DRIVER)
    (site.folder / "right").write_text("right")
    (site.folder / "wrong").write_text("wrong")
    return site


# A target of another package.


@pytest.mark.slow
def test_it_is_listed_with_its_option(counter: Site) -> None:
    assert "counter --counter-file: a counter\n" in counter.run("targets").stdout
    assert "--counter-file PATH" in counter.run("run", "--help").stdout


@pytest.mark.slow
def test_its_version_is_listed_although_other_targets_cannot_keep_their_programs(
    counter: Site,
) -> None:
    counter.install("keepers", "mine = keepers:TARGETS", __init__=KEPT_REGISTRATION)
    taken = counter.folder / "right"
    available = counter.run("targets", "--available", HOME=str(taken), XDG_CACHE_HOME="").stdout
    rows = {name: row for name, *row in map(str.split, available.splitlines())}
    assert rows["counter"] == ["1.0"]
    assert rows["kept"][:2] == ["none", f"{taken}/.cache/gcfuzz:"]


@pytest.mark.slow
def test_it_is_checked_and_run_by_both_engines(counter: Site) -> None:
    assert "counter" in counter.run("check", "--target", "counter").stdout
    for engine in ("random", "stateful"):
        counter.run("run", "--target", "counter", "--engine", engine, "--actions", "500")


@pytest.mark.slow
def test_its_option_names_it_and_is_part_of_a_replay(counter: Site) -> None:
    plan = ["--actions", "2000", "--seed", "1", "--corpus", "found"]
    printed = counter.run("run", "--counter-file", "wrong", *plan, code=MISMATCH).stdout
    [trace] = (counter.folder / "found").glob("*.jsonl")
    assert f"gcfuzz replay found/{trace.name} --counter-file wrong" in printed
    counter.run("replay", str(trace), "--counter-file", "wrong", code=MISMATCH)
    counter.run("replay", str(trace), "--counter-file", "right")


@pytest.mark.slow
def test_two_versions_are_compared_and_reported(counter: Site) -> None:
    plan = ["--actions", "2000", "--seed", "1", "--corpus", "found"]
    versions = ["--before", "right", "--after", "wrong"]
    counter.run("run", "--target", "counter", *versions, *plan, code=MISMATCH)
    counter.run("report", "found", "-o", "night.html")
    night = json.loads((counter.folder / "night.json").read_text("utf-8"))
    assert {each["target"] for each in night["causes"]} == {"counter"}


# What is wrong with a registration.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "module", "why"),
    [
        ("nowhere:TARGETS", "", "ModuleNotFoundError: No module named 'nowhere'"),
        ("broken:TARGETS", "1 / 0", "ZeroDivisionError: division by zero"),
        ("broken:TARGETS", "TARGETS = 3", "TypeError: 'int' object is not iterable"),
        ("broken:TARGETS", "TARGETS = (3,)", "TypeError: 3 is not a Registration"),
        (
            "broken:TARGETS",
            "from fuzz.targets.go import TARGETS",
            "ValueError: there is another target go: the heap profile of a stock Go",
        ),
        (
            "broken:TARGETS",
            REGISTRATION.replace('name="counter"', 'name="a+b"'),
            "ValueError: 'a+b' is not a name of letters a-z, digits and hyphens",
        ),
    ],
)
def test_a_broken_registration_is_one_line_and_does_not_stop_other_targets(
    counter: Site, entry: str, module: str, why: str
) -> None:
    counter.install("broken", f"other = {entry}", __init__=module)
    done = counter.run("check", "--target", "counter")
    assert done.stderr == (
        f"gcfuzz: broken: the target other ({entry}) is left out: {why}; fix or uninstall that "
        "package\n"
    )


@pytest.mark.slow
def test_an_option_with_the_name_of_the_commands_own_is_left_out(counter: Site) -> None:
    module = REGISTRATION.replace("counter-file", "seed").replace('"counter"', '"seeded"')
    counter.install("seeds", "seeded = seeds:TARGETS", __init__=module)
    [line] = counter.run("run", "--target", "counter", "--actions", "10").stderr.splitlines()[:1]
    assert (
        "`gcfuzz run` has an option --seed, so the one of a registered target is left out" in line
    )


@pytest.mark.slow
def test_options_of_several_targets_need_a_name(site: Site) -> None:
    done = site.run("run", "--library", "libx.so", code=BAD_INPUT)
    assert done.stderr == (
        "gcfuzz: --library: name one of gperftools, jemalloc, tcmalloc with --target\n"
    )


# The targets of this package.


def test_all_targets_of_this_package_are_registered() -> None:
    assert registry().problems == ()
    folders = {path.parent for path in PACKAGE.glob("targets/*/__init__.py")}
    texts = {folder.name: (folder / "__init__.py").read_text("utf-8") for folder in folders}
    exporting = {name for name, text in texts.items() if "\nTARGETS = " in text}
    registered = {
        each.variant_of or name for name, each in registry().targets.items() if name != "process"
    }
    assert exporting - {"references"} == {name for name in registered if "reference" not in name}


def test_what_a_registration_names_exists() -> None:
    for path in PACKAGE.glob("targets/*/__init__.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazily":
                assert callable(resolve_name(ast.literal_eval(node.args[0])))


@pytest.mark.slow
def test_no_other_module_names_a_target() -> None:
    """Generators of distances have names of systems, and so have contracts.

    A former name leads to the present one.
    """
    names = registry().targets.keys() - {REFERENCE, "process"}
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parts[0]
        if package in {"targets", "docs", "former_names.py"}:
            continue
        allowed = {*get_args(Distances)} if package in {"protocol", "oracles"} else set[str]()
        found += [
            f"{path}:{node.lineno}: {node.value}"
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant) and node.value in names - allowed
        ]
    assert found == []


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (TargetOptions(("a b", "c")), ["--command", "'a b' c"]),
        (
            TargetOptions(paths={"python": Path("/p"), "go": Path("/go")}),
            ["--go", "/go", "--python", "/p"],
        ),
        (
            TargetOptions(timeout_seconds=2.5, fresh_process=True, check_invariants=True),
            ["--timeout", "2.5s", "--fresh-process", "--check-invariants"],
        ),
    ],
)
def test_options_are_arguments_of_a_replay(options: TargetOptions, arguments: list[str]) -> None:
    assert options.arguments == arguments


def test_only_programs_are_programs() -> None:
    assert [is_program(name) for name in ("go", "process", REFERENCE, "a:B", "none")] == [
        *(True, True, False, False, False)
    ]


def test_a_target_that_cannot_be_created_is_bad_input() -> None:
    target = InProcess(name="mine", description="", create=lazily("builtins:int.no_such_method"))
    with pytest.raises(BadInputError, match="the target mine: creating it raised AttributeError"):
        target.make(TargetOptions())


def test_the_variant_has_the_same_program_and_options() -> None:
    program = registry().targets["go"]
    assert isinstance(program, Program)
    variant = program.as_documented()
    assert (variant.name, variant.variant_of) == ("go-as-documented", "go")
    assert (variant.command, variant.options) == (program.command, program.options)
    assert variant == registry().targets["go-as-documented"]


def test_a_variant_adds_to_the_environment_of_a_command() -> None:
    driver = partial(python_driver, "package")
    program = Program(
        name="a", description="", command=lambda name, _: driver(name, "x"), environment=("A=1",)
    )
    variant = program.variant("-b", "", environment=["B=2"]).as_documented()
    assert " ".join(variant.command_line(NO_OPTIONS)) == (
        f"env A=1 B=2 GCFUZZ_AS_DOCUMENTED=1 {sys.executable} -m package.driver a-b-as-documented x"
    )


def test_an_unknown_target_is_bad_input_that_names_a_similar_one() -> None:
    with pytest.raises(BadInputError, match=r"unknown target 'hotspott'; did you mean `hotspot`\?"):
        make_target("hotspott")
