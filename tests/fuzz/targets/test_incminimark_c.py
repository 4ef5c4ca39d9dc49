"""The target incminimark-c: PyPy's collector of rpython 0.2.1, translated to C.

The tests share one translation, which stays in the user's cache. They need what those of
incminimark need, and gcc and make.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from command_line import Gcfuzz
from night import fresh, part_of
from scripts import shell_script
from target_helpers import MISMATCH, ROOT, Changed, first_failure, pypy_options
from waiting import completed

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.protocol.trace import Trace
from fuzz.replay import replay
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.incminimark import TRANSLATED
from fuzz.targets.incminimark.find import COLLECTOR, find_python
from fuzz.targets.incminimark.translation import (
    BUILDS,
    LAUNCH,
    RELEASE,
    TOOLS,
    Build,
    content_of,
    translated,
)
from fuzz.targets.process.program import ProcessTarget

WITH_FINDINGS = ("copy_array", "pin")
"""The actions that reach the known defects of rpython 0.2.1."""
IN_EACH_BUILD = (
    *("arraycopy-while-marking", "arraycopy-between-cards-while-marking"),
    *("arraycopy-clean-cards-while-marking", "arraycopy-into-prebuilt", "pinned-shadow-freed"),
    *("marking-without-end-heap", "marking-without-end-whole-steps", "weakref-to-pinned-cleared"),
    "pressure-beside-pinned",
)
"""The known failures of rpython 0.2.1 that need no assertion."""
BARRIER = """\
        if not llop.gc_writebarrier_before_copy(lltype.Bool, source, dest,
                                                source_start, dest_start,
                                                length):
"""
ONLY_MINOR = (
    *("collect_step", "collect_full", "collect_progress", "add_memory_pressure", "pin"),
    # An old string makes a step if the heap is near its threshold. With it, one session of eight
    # copies an array between two such steps, which is `arraycopy-while-marking`.
    "allocate_old_string",
)
"""Without these, copies are right, since the known defects are in major collections."""
UNTRANSLATED = {"card_items": 4, "paged_arenas": 1}
"""What the translation with the tests' constants fixes."""
ARENA_BYTES = {"translated": 496, "untranslated": 512}


@pytest.fixture(scope="module")
def options() -> TargetOptions:
    return pypy_options("incminimark-c", *TOOLS)


def stock(options: TargetOptions, *without: str, name: str = "incminimark-c") -> FullTarget:
    return full(make_target(name, attrs.evolve(options, without=without)))


def known_failure(name: str) -> tuple[Path, Trace]:
    [path] = (ROOT / "corpus" / "incminimark").glob(f"{name}*.jsonl")
    return path, traces.read(path)


# The collector.


@pytest.mark.slow
@pytest.mark.parametrize("constants", [0, 1])
def test_without_copies_and_pins_a_session_has_no_failure(
    constants: int, options: TargetOptions
) -> None:
    target = Changed(stock(options, *WITH_FINDINGS), shipped_constants=constants)
    assert first_failure(target, part_of(100_000), fresh("1")) is None
    assert target.collections > part_of(100_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_EACH_BUILD)
def test_a_finding_is_in_the_translated_collector_too(name: str, options: TargetOptions) -> None:
    path, trace = known_failure(name)
    failure = replay(stock(options), trace, path.name)
    assert failure is not None
    assert len(failure.actions) == len(trace.actions)


@pytest.mark.slow
def test_a_session_finds_the_array_copy(
    options: TargetOptions, tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    # The findings of pinned objects would end most traces.
    target = ["--target", "incminimark-c", *options.arguments, "--without", "pin"]
    # Each of twenty seeds finds it within 1,884 actions.
    plan = ["--seed", "1", "--actions", "5000", "--corpus", str(tmp_path)]
    assert "copy_array" in gcfuzz(MISMATCH, "run", *target, *plan).out


@pytest.mark.slow
@pytest.mark.night
def test_a_copy_without_a_barrier_is_found(options: TargetOptions, tmp_path: Path) -> None:
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns("test", "_cache", "*.pyc")
    shutil.copytree(options.paths["source"], source, ignore=ignore)
    module = source / "rpython" / "rlib" / "rgc.py"
    text = module.read_text("utf-8")
    assert text.count(BARRIER) == 1
    module.write_text(text.replace(BARRIER, "        if length < 0:\n"), "utf-8")
    patched = of_one_build(RELEASE, source, options, *ONLY_MINOR)
    failure = first_failure(_without_prebuilt_arrays(patched), 20_000)
    assert failure is not None
    assert "copy_array" in [name_of(type(each)) for each in failure.actions]


def of_one_build(
    build: Build, source: Path, options: TargetOptions, *without: str
) -> ProcessTarget:
    """The target with the tests' constants alone, which is half the translation."""
    python = find_python(options.paths.get("python"))
    [program] = translated(python, source.resolve(), ("tests",), build)
    command = ("env", *build.at_run, sys.executable, "-I", str(LAUNCH), str(program))
    return ProcessTarget("incminimark-c", command, options.timeout_seconds, without)


@pytest.mark.slow
def test_the_same_session_finds_nothing_with_the_barrier(options: TargetOptions) -> None:
    target = _without_prebuilt_arrays(stock(options, *ONLY_MINOR))
    assert first_failure(target, 20_000) is None


def _without_prebuilt_arrays(target: Target) -> Changed:
    return Changed(target, prebuilt_arrays=0, shipped_constants=0)


@pytest.mark.slow
@pytest.mark.night
def test_a_debug_build_stops_at_an_assertion(options: TargetOptions) -> None:
    debug = full(of_one_build(BUILDS["debug"], options.paths["source"], options))
    path, trace = known_failure("copied-cards-beyond-end")
    failure = replay(debug, trace, path.name)
    assert failure is not None
    assert "empty or negative range" in debug.complaint


@pytest.mark.slow
@pytest.mark.night
def test_a_debug_build_has_no_failure_without_copies_and_pins(options: TargetOptions) -> None:
    debug = of_one_build(BUILDS["debug"], options.paths["source"], options, *WITH_FINDINGS)
    target = Changed(debug, shipped_constants=0)
    assert first_failure(target, part_of(5000), fresh("1")) is None


# Translated and untranslated.


class Recording(Changed):
    """Keeps the settings, the actions and the observations of each trace."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, shipped_constants=0)
        self.traces: list[tuple[Mapping[str, int], list[tuple[Action, Observation]]]] = []

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.traces.append((configuration, []))
        return super().start(configuration)

    def perform(self, action: Action) -> Observation:
        observation = super().perform(action)
        self.traces[-1][1].append((action, observation))
        return observation


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "actions", "seed"),
    [
        *(("", 5000, "1"), ("-finalizers", 2500, "1")),
        *[pytest.param("", 5000, "2", marks=pytest.mark.night)],
        *[pytest.param("-finalizers", 2500, "2", marks=pytest.mark.night)],
    ],
)
def test_both_collectors_answer_alike(
    more: str, actions: int, seed: str, options: TargetOptions
) -> None:
    # Only the translated one has memory in which strings have bytes.
    without = (*WITH_FINDINGS, "check_contents")
    recording = Recording(stock(options, *without, name=f"incminimark-c{more}"))
    assert first_failure(recording, part_of(actions), fresh(seed)) is None
    untranslated = full(make_target(f"incminimark{more}", options))
    for configuration, steps in recording.traces:
        config = {**configuration, **UNTRANSLATED}
        config.pop("shipped_constants", None)
        untranslated.start(config)
        untranslated.announce(action for action, _ in steps)
        for action, observation in steps:
            expected = _comparable(untranslated.perform(action), "untranslated")
            assert _comparable(observation, "translated") == expected


def _comparable(observation: Observation, kind: str) -> Observation:
    """The observation with a number of arenas for their bytes, and without the identity.

    malloc() may give an object the address, and so the identity, of one that has died.
    """
    observation = attrs.evolve(observation, identity=None)
    if observation.memory is None:
        return observation
    used_bytes, arena_bytes = observation.memory
    return attrs.evolve(observation, memory=[used_bytes, arena_bytes // ARENA_BYTES[kind]])


# The program.


def answers_to(lines: Sequence[str], options: TargetOptions) -> list[str]:
    command = TRANSLATED.command_line(options)
    text = "".join(f"{line}\n" for line in lines)
    done = completed(command, input=text)
    return done.stdout.splitlines()


HEADER, CHECK = '{"gcfuzz": 2}', '{"do": "check_heap"}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "IllegalError"),
        ('{"do": "fly"}', "IllegalError"),
        ('{"do": "free", "root": 0}', "IllegalError"),
        ('{"do": "write", "root": -1, "field": 0, "value": null}', "IllegalError"),
    ],
)
def test_after_a_wrong_line_only_a_header_is_carried_out(
    line: str, problem: str, options: TargetOptions
) -> None:
    contract, wrong, refused, again, right = answers_to(
        [HEADER, line, CHECK, HEADER, CHECK], options
    )
    assert contract == again
    assert problem in wrong
    assert "error" in refused
    assert "graph" in right


@pytest.mark.slow
def test_after_an_unknown_setting_only_a_header_is_answered(options: TargetOptions) -> None:
    unknown = '{"gcfuzz": 2, "config": {"flavour": 1}}'
    refused, action, *others = answers_to([unknown, CHECK, HEADER, HEADER, CHECK], options)
    assert "IllegalError: config" in refused
    assert "IllegalError: the heap is gone" in action
    assert ["contract" in each for each in others] == [True, True, False]


@pytest.mark.slow
def test_collections_visit_each_root(options: TargetOptions) -> None:
    allocations = [f'{{"do": "allocate_node", "number": {number}}}' for number in range(300)]
    freed = ['{"do": "free", "root": 299}', '{"do": "free", "root": 0}']
    *_, answer = answers_to([HEADER, *allocations, *freed, '{"do": "collect_full"}'], options)
    graph = json.loads(answer)["graph"]
    assert [number for _, number in graph[:298]] == [*range(1, 299)]


@pytest.mark.slow
def test_strings_keep_their_characters_when_they_move(options: TargetOptions) -> None:
    lines = [
        '{"do": "allocate_string", "length": 100}',
        '{"do": "allocate_old_string", "length": 3}',
        '{"do": "allocate_array", "length": 1}',
        '{"do": "write", "root": 2, "field": 0, "value": 0}',
        '{"do": "free", "root": 0}',
        '{"do": "collect_full"}',
        '{"do": "check_contents"}',
    ]
    *_, answer = answers_to([HEADER, *lines], options)
    assert json.loads(answer)["contents"] == [[2], [1]]


@pytest.mark.slow
def test_a_trace_does_not_depend_on_the_traces_before_it(options: TargetOptions) -> None:
    trace = [HEADER, '{"do": "allocate_node", "number": 1}', '{"do": "collect_full"}']
    answers = answers_to([*trace, *trace], options)
    assert answers[: len(trace)] == answers[len(trace) :]


# Translating.


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """A folder that looks like one with RPython."""
    folder = tmp_path / "source"
    (folder / COLLECTOR).parent.mkdir(parents=True)
    (folder / COLLECTOR).write_text("collector = 1\n", "utf-8")
    yield folder
    translated.cache_clear()


def python_that(folder: Path, script: str) -> Path:
    """A Python 2.7 that carries out this shell script when it translates."""
    version = 'if [ "$1" = -c ]; then printf 2.7; exit; fi'
    return shell_script(folder / "python2.7", f"{version}\n{script}")


def test_a_failed_translation_names_the_log_and_its_last_lines(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    python = python_that(tmp_path, "for each in 1 2 3 4 5 6 7; do echo line $each; done; exit 1")
    paths = {"python": python, "source": source}
    with pytest.raises(BadInputError, match=r"the translation fails.*translation-tests\.log") as it:
        TRANSLATED.command_line(TargetOptions(paths=paths))
    [note] = it.value.__notes__
    assert note.splitlines() == [f"line {number}" for number in range(3, 8)]


def test_a_translation_is_kept_for_the_content_of_the_source(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    python = python_that(
        tmp_path, 'echo >>"$(dirname "$0")/runs"; for o; do :; done; touch translated'
    )
    paths = {"python": python, "source": source}
    counts = []
    for text in ("collector = 1\n", "collector = 1\n", "collector = 2\n"):
        (source / COLLECTOR).write_text(text, "utf-8")
        translated.cache_clear()
        TRANSLATED.command_line(TargetOptions(paths=paths))
        counts.append(len((tmp_path / "runs").read_text("utf-8").splitlines()))
    assert counts == [2, 2, 4]


def test_rpython_s_own_tests_do_not_count_as_its_content(source: Path) -> None:
    before = content_of(source)
    test = source / "rpython" / "memory" / "test" / "test_gc.py"
    test.parent.mkdir()
    test.write_text("assert True\n", "utf-8")
    assert content_of(source) == before


@pytest.mark.parametrize("tool", TOOLS)
def test_a_missing_tool_is_one_line_of_bad_input(
    tool: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in {*TOOLS} - {tool}:
        (tmp_path / other).symlink_to(sys.executable)
    python = python_that(tmp_path, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInputError, match=rf"there is no {tool} on PATH: apt install gcc make$"):
        translated(python, source)


def test_the_launcher_starts_the_program_of_the_header(tmp_path: Path) -> None:
    programs = []
    for number in range(2):
        script = f'printf "{number} %s" "$GCFUZZ_FIRST_LINE"; cat'
        programs.append(str(shell_script(tmp_path / str(number), script)))
    text = '{"gcfuzz": 2, "config": {"shipped_constants": 1}}\nthe rest'
    command = [sys.executable, "-I", str(LAUNCH), *programs]
    done = completed(command, input=text)
    assert done.stdout == f"1 {text}"
