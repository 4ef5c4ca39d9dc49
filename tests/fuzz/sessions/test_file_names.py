"""What a target says becomes part of a file's name, and can do no harm there."""

from pathlib import Path

import pytest

from fuzz.protocol.actions import CollectFull
from fuzz.run import Failure
from fuzz.sessions.corpus import Finder, save_raw


@pytest.mark.parametrize("said", ["a/b", "../x", "x" * 1000, "\0", "\ud800", "[/red]\n", ""])
def test_a_find_is_saved_whatever_the_target_said(tmp_path: Path, said: str) -> None:
    failure = Failure({}, (CollectFull(),), "heap", "error", said, "null", said, "why")
    raw = save_raw(Finder(tmp_path, "process", "random", 1), failure)
    assert [raw.path] == list(tmp_path.iterdir())
