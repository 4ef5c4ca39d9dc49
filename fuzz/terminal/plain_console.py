"""Standard output for rich. It is apart because importing rich takes longer than a replay."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text
from typing_extensions import override

from fuzz.plain import LINE_MAX, plain


class PlainConsole(Console):
    """Standard output. Strings are shown as they are, without markup and control characters."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    @override
    def render_str(self, text: str, **looks: Any) -> Text:
        """Rich calls this for all strings, also in tables and groups."""
        return super().render_str(plain(text, LINE_MAX), **looks)
