"""The page of a night links what the program wrote on standard error, and copies no other file."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_records import failure, record, written

from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.terminal.commands.cli import run_command_line

WORDS = "heap.c:9: the program's own words\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = written(tmp_path / "corpus", record(failure("heap", path="heap.jsonl")))
    header = Header(VERSION, "reference")
    traces.write_to(Trace(header, (AllocateNode(7),)), folder / "heap.jsonl")
    return folder


def page_of(corpus: Path) -> str:
    page = corpus.parent / "night.html"
    assert run_command_line(["report", str(corpus), "-o", str(page)]) == 0
    return page.read_text(encoding="utf-8")


def test_a_failure_of_a_night_links_the_log_of_its_program(corpus: Path) -> None:
    (corpus / "heap.log").write_text(WORDS)
    assert 'href="night/heap.log"' in page_of(corpus)
    assert (corpus.parent / "night" / "heap.log").read_text() == WORDS


def test_a_log_that_is_a_link_to_another_file_is_not_published(corpus: Path) -> None:
    private = corpus.parent / "private"
    private.write_text("a secret")
    (corpus / "heap.log").symlink_to(private)
    assert "heap.log" not in page_of(corpus)
    assert not (corpus.parent / "night" / "heap.log").exists()
