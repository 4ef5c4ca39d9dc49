"""The examples of docs/sampling-rules.md and docs/protocol.md say what the oracles say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from judging import Judge, answer

from fuzz.oracles.blocks import bytes_to_move
from fuzz.oracles.stands_for import STANDS_FOR, CountedBlock
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract

DOCS = Path(__file__).parents[3] / "docs"
RULES = (DOCS / "sampling-rules.md").read_text()
PROTOCOL = (DOCS / "protocol.md").read_text()
MINOR, FULL = do.CollectMinor(), do.CollectFull()
ANSWERS = {"dead": {False}, "either": {False, True}}


def rows_below(page: str, heading: str) -> list[list[str]]:
    """The cells of the table in a section."""
    section = page.split(f"\n{heading}\n")[1]
    table = re.findall(r"^\| (.*) \|$", section.split("\n#")[0], re.MULTILINE)
    return [row.split(" | ") for row in table[1:]]


def test_what_a_sample_stands_for() -> None:
    block = CountedBlock(counted_bytes=60, size_bytes=64, weight=130, period_bytes=100)
    rows = rows_below(RULES, "## What a sample stands for")
    assert len(rows) == len(STANDS_FOR)
    for name, blocks, its_bytes, *_ in rows:
        objects, size_bytes = STANDS_FOR[name.strip("`")](block)
        if name == "`present_probability`":
            objects, size_bytes = STANDS_FOR["probability"](block)  # The period has not changed.
        elif name == "`itself`":
            assert size_bytes == 60
        assert float(blocks) == pytest.approx(objects, abs=0.005)
        assert int(its_bytes) == round(size_bytes)


def test_which_blocks_move_when_they_are_resized() -> None:
    for to, _, moves, _ in rows_below(RULES, "## Blocks that are resized"):
        requested = bytes_to_move(112, int(to.removesuffix(" bytes")))
        assert moves.startswith("no" if requested is None else "yes")
        assert requested != 140 or "140 bytes are requested" in moves


def deaths(contract: Contract, text: str) -> Contract:
    stated = dict(re.findall(r"`(\w+)` (\d+)", text))
    keys: dict[str, Any] = {key: int(value) for key, value in stated.items()}
    return attrs.evolve(contract, **keys)


@pytest.mark.parametrize("row", rows_below(PROTOCOL, "### Deaths"), ids=lambda row: row[0])
def test_when_a_weak_reference_may_be_alive(row: list[str], contract: Contract) -> None:
    text, *expected = row
    plain = attrs.evolve(contract, observes=("minors", "alive"), promises=(), prebuilt=())
    collections: list[list[Action]] = [[MINOR], [FULL], [FULL, FULL]]
    for collected, right in zip(collections, expected, strict=True):
        may = {
            is_alive
            for is_alive in (False, True)
            if Judge(deaths(plain, text), usual=_collecting).verdict(
                do.AllocateNode(0),
                do.AllocateWeakref(0),
                do.Free(0),
                *collected,
                answer(do.ReadWeakref(0), alive=is_alive),
            )
            is None
        }
        assert may == ANSWERS[right], (text, collected)


def _collecting(action: Action) -> dict[str, int]:
    return {"minors": int(action.collects != "never")}
