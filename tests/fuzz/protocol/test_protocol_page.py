"""The table of actions in docs/protocol.md is what their classes declare."""

from collections.abc import Callable
from pathlib import Path

from fuzz.protocol.actions import ACTIONS, Action

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"


def test_the_page_has_a_row_for_each_action_as_it_is_declared(
    row_of: Callable[[type[Action]], str],
) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index("| line | what to do | observed |")
    table = lines[start + 2 : lines.index("", start)]
    assert table == [row_of(action) for action in ACTIONS.values()]
