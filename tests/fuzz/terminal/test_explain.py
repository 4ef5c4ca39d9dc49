"""`gcfuzz explain`: a trace step by step, with a picture of the nursery."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.failures.trace_files import shipped_traces
from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import CheckHeap
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import loads
from fuzz.replay import Step, replay_steps
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.explain import COLUMNS, WIDTH, answers_of, explain_step

OF_PLANTED_BUGS = {name: trace for name, trace in shipped_traces().items() if trace.header.kills}
CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'
MARK = "→"
DOTNET, JEMALLOC, TLAB = "reference-dotnet-document", "reference-jemalloc", "reference-hotspot"
NODE = '{"do": "allocate_node", "number": 0}'
BLOCK_SAMPLED = '{"do": "malloc", "size_bytes": 100000}'
TOO_LARGE = '{"do": "allocate_string", "length": 872}'
DISABLE, IS_BROKEN = '{"do": "disable_sampling"}', "reference+disable-before-enable"


def enable(period_bytes: int) -> str:
    return f'{{"do": "enable_sampling", "period_bytes": {period_bytes}}}'


def string(length: int) -> str:
    return f'{{"do": "allocate_string", "length": {length}}}'


def explained(*actions: str, target: str = "reference") -> list[str]:
    """The lines of the last step."""
    trace = loads(HEADER + "".join(action + "\n" for action in actions), "trace.jsonl")
    *_, last = replay_steps(make_target(target), trace, "trace.jsonl")
    return list(explain_step(last))


def picture(lines: list[str]) -> tuple[str, str]:
    """The bar without its ends, and the marks below it."""
    bar = next(number for number, line in enumerate(lines) if line.lstrip().startswith("|"))
    left = lines[bar].index("|") + 1
    return lines[bar][left : left + WIDTH], lines[bar + 1][left:]


# The picture.


def test_the_object_just_placed_stands_out_from_older_ones() -> None:
    bar, _ = picture(explained(NODE, NODE))
    eighth = WIDTH // 8
    assert bar == "#" * eighth + "=" * (2 * WIDTH // 8 - eighth) + "." * (WIDTH - 2 * WIDTH // 8)


def test_an_object_outside_is_not_in_the_picture() -> None:
    assert picture(explained(string(100)))[0] == "." * WIDTH


def test_the_pointers_are_to_scale() -> None:
    _, marks = picture(explained(NODE, enable(128)))
    places = [marks.index(letter) for letter in "FST"]
    assert places == [WIDTH * 32 // 256, WIDTH * 160 // 256, WIDTH]


def test_a_sample_point_beyond_the_top_is_shown_beyond_it() -> None:
    assert picture(explained(enable(512)))[1].endswith("S>")


def test_a_tlab_is_drawn_with_its_sample_point() -> None:
    lines = explained(enable(8), NODE, target=TLAB)
    bar, marks = picture(lines)
    assert bar == "=" * (WIDTH * 32 // 144) + "." * (WIDTH - WIDTH * 32 // 144)
    places = [marks.index(letter) for letter in "TEA"]
    assert places == [WIDTH * 32 // 144, WIDTH * 64 // 144, WIDTH]
    assert lines[-1].split("  ")[-4:] == ["start 0", "top 32", "end 64", "allocation_end 144"]


def test_an_object_outside_the_tlab_is_not_in_the_picture() -> None:
    lines = explained(enable(8), NODE, string(767), target=TLAB)
    assert any("792 bytes in the nursery at 160, outside the TLAB, 1 sample" in x for x in lines)
    assert "=" not in picture(lines)[0]


@pytest.mark.parametrize(
    ("target", "legend"),
    [("reference", "nursery_free"), (TLAB, "A, allocation_end"), (DOTNET, None), (JEMALLOC, None)],
)
def test_the_legend_is_there_if_there_is_a_nursery_to_draw(
    target: str, legend: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    action = BLOCK_SAMPLED if target == JEMALLOC else NODE
    path.write_text(f'{{"gcfuzz": 2, "target": "{target}"}}\n{action}\n')
    run_command_line(["explain", str(path)])
    printed = capsys.readouterr().out
    assert legend in printed if legend else "# allocated" not in printed


# The answers.


@pytest.mark.parametrize(
    ("actions", "target", "words"),
    [
        ((enable(8), NODE), "reference", "32 bytes in the nursery at 0, 3 samples"),
        ((enable(24), NODE, '{"do": "collect_minor"}'), "reference", "reported node survived"),
        ((NODE, '{"do": "collect_full"}'), "reference", "memory of 32 bytes and 512 arena bytes"),
        ((enable(8), NODE), DOTNET, "1 sample, offsets "),
        ((BLOCK_SAMPLED,), JEMALLOC, "bytes, 1 sample"),
        ((BLOCK_SAMPLED,), "reference-tcmalloc", "bytes, 1 sample, weights "),
        ((BLOCK_SAMPLED,), "reference-gperftools", "bytes, 1 sample"),
        (
            (BLOCK_SAMPLED, '{"do": "read_profile"}'),
            JEMALLOC,
            "profile of 1 object and 114,688 bytes",
        ),
        ((TOO_LARGE,), "reference-exhaustion", "memory exhausted, 3 minor collections"),
        ((DISABLE,), IS_BROKEN, "MISMATCH pointers: limit: expected 256, got 0"),
    ],
)
def test_an_answer_is_described_in_words(actions: tuple[str, ...], target: str, words: str) -> None:
    text = " ".join(" ".join(explained(*actions, target=target)).split())
    assert words in text
    assert text.count(" sample") <= 1 or target != DOTNET


def test_events_are_in_their_order(contract: Contract) -> None:
    seen = Observation(samples=3, minors=1, order="ssMRs")
    words = "2 samples then 1 minor collection then 1 report then 1 sample"
    assert words in list(answers_of(seen, contract))


@pytest.mark.parametrize("state", [-1, 4, 99])
def test_an_unknown_state_is_shown_by_its_number(state: int, contract: Contract) -> None:
    seen = Observation(state=state)
    step = Step(1, CheckHeap(), seen, contract, None, Shadow(contract))
    assert list(explain_step(step))[1:] == [f"      major collection in state {state}"]


def test_only_the_first_wrong_answer_is_marked() -> None:
    assert explained(DISABLE, target=IS_BROKEN)[0].startswith(MARK)
    assert not any(line.startswith(MARK) for line in explained(NODE, enable(128)))


def test_every_line_of_a_planted_bug_s_trace_fits_in_80_columns() -> None:
    for name, trace in OF_PLANTED_BUGS.items():
        target = make_target(KNOWN_BUGS[trace.header.kills[0]].target)
        lines = [line for step in replay_steps(target, trace, name) for line in explain_step(step)]
        assert any(line.startswith(MARK) for line in lines), name
        assert [line for line in lines if len(line) > COLUMNS] == [], name


# The command.


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Explain a trace of a known bug; returns the exit code and the last line."""

    def run(bug: str, *options: str) -> tuple[int, str]:
        path = tmp_path / "trace.jsonl"
        path.write_text(f'{{"gcfuzz": 2, "target": "reference", "kills": ["{bug}"]}}\n{DISABLE}\n')
        code = run_command_line(["explain", str(path), *options])
        return code, capsys.readouterr().out.splitlines()[-1]

    return run


def test_a_known_bug_that_passes_names_its_command(explain: Callable[..., tuple[int, str]]) -> None:
    code, last = explain("disable-before-enable")
    assert code == CLEAN
    command = re.fullmatch("passes here; `gcfuzz (.*)` shows the failure", last)
    assert command
    assert run_command_line(shlex.split(command[1])) == MISMATCH


@pytest.mark.parametrize(
    ("bug", "options", "expected"),
    [("disable-before-enable", ["--target", IS_BROKEN], MISMATCH), ("some-other-bug", [], CLEAN)],
)
def test_other_traces_name_no_command(
    bug: str, options: list[str], expected: int, explain: Callable[..., tuple[int, str]]
) -> None:
    code, last = explain(bug, *options)
    assert code == expected
    assert "passes here" not in last


def test_explaining_an_unreadable_file_is_bad_input(tmp_path: Path) -> None:
    assert run_command_line(["explain", str(tmp_path / "missing.jsonl")]) == BAD_INPUT
