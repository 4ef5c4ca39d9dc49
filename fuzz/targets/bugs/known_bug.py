"""What is known of a known bug. Its declaration, `@HOST.bug(...)`, stands above the mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

Mistake = TypeVar("Mistake", bound=type[Any])


@attrs.frozen
class KnownBug:
    """A bug, where it happened, which parts of gcmodel it changes, and who may catch it.

    `shortest` is the length of the shortest known trace that shows it, and `host` the target in
    which it is planted.
    """

    id: str
    seen_in: str
    what: str
    oracles: tuple[str, ...]
    shortest: int
    parts: dict[str, type[Any]]
    host: str = "reference"

    @property
    def target(self) -> str:
        """The name of the host with this bug planted in it."""
        return f"{self.host}+{self.id}"


DECLARED: list[KnownBug] = []
"""All known bugs, in the order of their declarations."""


@attrs.frozen
class Host:
    """A target in which bugs are planted, and the parts of gcmodel of which it is made."""

    name: str
    parts: Any

    def bug(
        self, name: str, seen_in: str, oracles: tuple[str, ...], shortest: int, *others: type[Any]
    ) -> Callable[[Mistake], Mistake]:
        """Declare a subclass of one of the parts to be a known bug, with `others` if need be.

        Its docstring says in a sentence what goes wrong.
        """

        def declare(mistake: Mistake) -> Mistake:
            sentence = mistake.__doc__ or ""
            what = sentence[:1].lower() + sentence[1:].rstrip(".")
            parts = {self._part(each): each for each in (*others, mistake)}
            DECLARED.append(KnownBug(name, seen_in, what, oracles, shortest, parts, self.name))
            return mistake

        return declare

    def _part(self, mistake: type[Any]) -> str:
        """The name of the part in whose place a subclass of it goes."""
        parts = attrs.asdict(self.parts, recurse=False).items()
        [name] = (
            name for name, part in parts if isinstance(part, type) and issubclass(mistake, part)
        )
        return name
