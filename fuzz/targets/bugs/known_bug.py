"""What is known of a known bug."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class KnownBug:
    """A bug, where it happened, which parts of gcmodel it changes, and who may catch it.

    `shortest` is the length of the shortest known trace that shows it, and `host` the target in
    which it is planted.
    """

    id: str
    source: str
    what: str
    oracles: tuple[str, ...]
    shortest: int
    parts: dict[str, type[Any]]
    host: str = "reference"
