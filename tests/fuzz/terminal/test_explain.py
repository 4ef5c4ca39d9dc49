"""`gcfuzz explain`: a trace step by step, with a picture of the nursery."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import CheckHeap
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import loads
from fuzz.run import Step, replay_steps
from fuzz.sessions.corpus import shipped_traces
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.cli import run_command_line
from fuzz.terminal.explain import COLUMNS, WIDTH, explain_step, facts_of

OF_PLANTED_BUGS = {name: trace for name, trace in shipped_traces().items() if trace.header.kills}

CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'
CULPRIT = "→"
DOTNET = "reference-dotnet-document"


def explained(*actions: str, target: str = "reference") -> list[list[str]]:
    """The lines of each step."""
    trace = loads(HEADER + "".join(action + "\n" for action in actions), "trace.jsonl")
    steps = replay_steps(make_target(target), trace, "trace.jsonl")
    return [list(explain_step(step)) for step in steps]


ENABLE = '{"do": "enable_sampling", "period_bytes": 128}'
NODE = '{"do": "allocate_node", "number": 0}'


def picture(lines: list[str]) -> tuple[str, str]:
    """The bar without its ends, and the marks below it."""
    bar = next(number for number, line in enumerate(lines) if line.lstrip().startswith("|"))
    left = lines[bar].index("|") + 1
    return lines[bar][left : left + WIDTH], lines[bar + 1][left:]


def test_the_object_just_placed_stands_out_from_the_older_ones() -> None:
    bar, _ = picture(explained(NODE, NODE)[1])
    eighth = WIDTH // 8
    assert bar == "#" * eighth + "=" * (2 * WIDTH // 8 - eighth) + "." * (WIDTH - 2 * WIDTH // 8)


def test_an_object_outside_is_not_in_the_picture() -> None:
    bar, _ = picture(explained('{"do": "allocate_string", "length": 100}')[0])
    assert bar == "." * WIDTH


def test_the_pointers_stand_to_scale() -> None:
    _, marks = picture(explained(NODE, ENABLE)[1])
    assert marks.index("F") == WIDTH * 32 // 256
    assert marks.index("S") == WIDTH * 160 // 256
    assert marks.index("T") == WIDTH


def test_a_sample_point_beyond_the_top_is_shown_beyond_it() -> None:
    _, marks = picture(explained('{"do": "enable_sampling", "period_bytes": 512}')[0])
    assert marks.endswith("S>")


def test_a_step_says_where_the_object_lies_and_what_happened() -> None:
    lines = explained('{"do": "enable_sampling", "period_bytes": 8}', NODE)[1]
    assert any("32 bytes in the nursery at 0, 3 samples" in line for line in lines)


def test_a_report_is_told_in_words() -> None:
    lines = explained(
        '{"do": "enable_sampling", "period_bytes": 24}', NODE, '{"do": "collect_minor"}'
    )
    assert any("reported node survived" in line for line in lines[2])


def test_the_first_wrong_answer_is_marked_with_what_was_expected() -> None:
    steps = explained('{"do": "disable_sampling"}', target="reference+disable-before-enable")
    assert steps[0][0].startswith(CULPRIT)
    assert "MISMATCH pointers: limit: expected 256, got 0" in " ".join(steps[0])


def test_nothing_is_marked_in_a_trace_that_passes() -> None:
    assert not any(line.startswith(CULPRIT) for lines in explained(NODE, ENABLE) for line in lines)


def test_every_line_of_a_planted_bug_s_trace_fits_in_80_columns() -> None:
    for name, trace in OF_PLANTED_BUGS.items():
        target = make_target(KNOWN_BUGS[trace.header.kills[0]].target)
        lines = [line for step in replay_steps(target, trace, name) for line in explain_step(step)]
        assert any(line.startswith(CULPRIT) for line in lines), name
        assert [line for line in lines if len(line) > COLUMNS] == [], name


@pytest.mark.parametrize(
    ("target", "code"), [("reference", CLEAN), ("reference+disable-before-enable", MISMATCH)]
)
def test_explain_exits_like_replay(target: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(HEADER + '{"do": "disable_sampling"}\n')
    assert run_command_line(["explain", str(path), "--target", target]) == code


def test_explaining_what_cannot_be_read_is_bad_input(tmp_path: Path) -> None:
    assert run_command_line(["explain", str(tmp_path / "missing.jsonl")]) == BAD_INPUT


@pytest.mark.parametrize("state", [-1, 4, 99])
def test_a_state_that_is_none_is_told_by_its_number(state: int, contract: Contract) -> None:
    seen = Observation(state=state)
    step = Step(1, CheckHeap(), seen, contract, None, Shadow(contract))
    assert list(explain_step(step))[1:] == [f"      major collection in state {state}"]


def test_memory_is_told_in_words() -> None:
    node, full = '{"do": "allocate_node", "number": 1}', '{"do": "collect_full"}'
    assert "memory of 32 bytes and 512 arena bytes" in said(node, full, target="reference")


# TLABs.

TLAB = "reference-hotspot"
IN_TLAB = ('{"do": "enable_sampling", "period_bytes": 8}', NODE)


def test_of_a_thread_with_a_tlab_that_is_drawn_with_its_sample_point() -> None:
    lines = explained(*IN_TLAB, target=TLAB)[1]
    bar, marks = picture(lines)
    assert bar == "=" * (WIDTH * 32 // 144) + "." * (WIDTH - WIDTH * 32 // 144)
    assert (marks.index("T"), marks.index("E")) == (WIDTH * 32 // 144, WIDTH * 64 // 144)
    assert marks.index("A") == WIDTH
    assert lines[-1].split("  ")[-4:] == ["start 0", "top 32", "end 64", "allocation_end 144"]


def test_what_lies_outside_the_tlab_says_so_and_is_not_in_the_picture() -> None:
    lines = explained(*IN_TLAB, '{"do": "allocate_string", "length": 767}', target=TLAB)[2]
    assert any("792 bytes in the nursery at 160, outside the TLAB, 1 sample" in x for x in lines)
    assert "=" not in picture(lines)[0]


def test_the_legend_of_tlabs_names_the_machines_pointers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(f'{{"gcfuzz": 2, "target": "{TLAB}"}}\n{NODE}\n')
    run_command_line(["explain", str(path)])
    assert "A, allocation_end" in capsys.readouterr().out


# Targets without a nursery, or that do not show it.

BLOCK_SAMPLED = '{"do": "malloc", "size_bytes": 100000}'


def said(*actions: str, target: str) -> str:
    """What is said of the last action, in one line."""
    return " ".join(" ".join(explained(*actions, target=target)[-1]).split())


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("reference-jemalloc", "1 sample"),
        ("reference-tcmalloc", "1 sample, weights "),
        ("reference-gperftools", "1 sample"),
    ],
)
def test_a_block_that_was_sampled_says_so(target: str, words: str) -> None:
    assert f"bytes, {words}" in said(BLOCK_SAMPLED, target=target)


def test_samples_are_said_once_where_their_order_is_known() -> None:
    words = said('{"do": "enable_sampling", "period_bytes": 8}', NODE, target=DOTNET)
    assert words.count("sample") == 1


def test_events_are_told_in_their_order(contract: Contract) -> None:
    seen = Observation(samples=3, minors=1, order="ssMRs")
    words = "2 samples then 1 minor collection then 1 report then 1 sample"
    assert words in list(facts_of(seen, contract))


def test_the_bytes_that_were_drawn_are_told() -> None:
    enable = '{"do": "enable_sampling", "period_bytes": 8}'
    assert "1 sample, offsets " in said(enable, NODE, target=DOTNET)


def test_a_profile_is_told_in_words() -> None:
    words = said(BLOCK_SAMPLED, '{"do": "read_profile"}', target="reference-jemalloc")
    assert words.endswith("profile of 1 object and 114,688 bytes")


@pytest.mark.parametrize(
    ("target", "drawn"), [("reference", True), (DOTNET, False), ("reference-jemalloc", False)]
)
def test_the_legend_stands_only_where_there_is_a_nursery_to_draw(
    target: str, drawn: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    action = BLOCK_SAMPLED if target == "reference-jemalloc" else NODE
    path = tmp_path / "trace.jsonl"
    path.write_text(f'{{"gcfuzz": 2, "target": "{target}"}}\n{action}\n')
    run_command_line(["explain", str(path)])
    assert ("nursery_free" in capsys.readouterr().out) is drawn


# A known bug's trace.

KILLER = (
    '{"gcfuzz": 2, "target": "reference", "kills": ["disable-before-enable"]}\n'
    '{"do": "disable_sampling"}\n'
)


def test_a_known_bug_s_trace_that_passes_says_where_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(KILLER)
    assert run_command_line(["explain", str(path)]) == CLEAN
    last = capsys.readouterr().out.splitlines()[-1]
    command = re.fullmatch("passes here; `gcfuzz (.*)` shows the failure", last)
    assert command
    assert run_command_line(shlex.split(command[1])) == MISMATCH


def test_one_that_fails_says_nothing_of_where_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(KILLER)
    target = KNOWN_BUGS["disable-before-enable"].target
    assert run_command_line(["explain", str(path), "--target", target]) == MISMATCH
    assert "passes here" not in capsys.readouterr().out


def test_a_trace_may_name_a_bug_that_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(KILLER.replace("disable-before-enable", "some-other-bug"))
    assert run_command_line(["explain", str(path)]) == CLEAN
    assert "passes here" not in capsys.readouterr().out
