"""What a target says becomes part of a file's name, and can do no harm there."""

from pathlib import Path

import pytest

from fuzz.actions import CollectFull
from fuzz.corpus import Finder, save_raw
from fuzz.run import Failure


@pytest.mark.parametrize("said", ["a/b", "../x", "x" * 1000, "\0", "\ud800", "[/red]\n", ""])
def test_a_find_is_saved_whatever_the_target_said(tmp_path: Path, said: str) -> None:
    failure = Failure({}, (CollectFull(),), "heap", "error", said, "null", said, "why")
    path = save_raw(Finder(tmp_path, "process", "random", 1), failure)
    assert [path] == list(tmp_path.iterdir())
