"""The description of a known bug, and the decorator `@HOST.bug(...)` that declares one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

Mistake = TypeVar("Mistake", bound=type[Any])


@attrs.frozen
class KnownBug:
    """A bug that can be planted in a reference target."""

    id: str
    seen_in: str
    """The product or the issue that had it."""
    what: str
    oracles: tuple[str, ...]
    """The oracles that may find it."""
    shortest: int
    """The length of the shortest known trace that shows it."""
    parts: dict[str, type[Any]]
    """The classes with the mistake, by the parts that they replace."""
    host: str = "reference"
    """The target in which it is planted."""

    @property
    def target(self) -> str:
        return f"{self.host}+{self.id}"


DECLARED: list[KnownBug] = []
"""All known bugs, in the order of their declarations."""


@attrs.frozen
class Host:
    """A target in which bugs are planted, and its parts of gcmodel."""

    name: str
    parts: Any

    def bug(
        self, name: str, seen_in: str, oracles: tuple[str, ...], shortest: int, *others: type[Any]
    ) -> Callable[[Mistake], Mistake]:
        """Declare a subclass of one of the parts to be a known bug, together with `others`.

        Its docstring describes the bug in a sentence.
        """

        def declare(mistake: Mistake) -> Mistake:
            sentence = mistake.__doc__ or ""
            what = sentence[:1].lower() + sentence[1:].rstrip(".")
            parts = {self._part(each): each for each in (*others, mistake)}
            DECLARED.append(KnownBug(name, seen_in, what, oracles, shortest, parts, self.name))
            return mistake

        return declare

    def _part(self, mistake: type[Any]) -> str:
        """The name of the part that a subclass replaces."""
        parts = attrs.asdict(self.parts, recurse=False).items()
        [name] = (
            name for name, part in parts if isinstance(part, type) and issubclass(mistake, part)
        )
        return name
