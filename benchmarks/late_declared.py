"""How a file declares bugs of `gcmodel`: each replaces methods, which it gets first."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from late_unseen import Bug, Method

__all__ = ["Method", "declarations"]


class Declarations(NamedTuple):
    """The bugs of a file, and the decorators that declare them."""

    bugs: dict[str, Bug]
    bug: Callable[..., Callable[[Method], Method]]
    """The function is a mistake in that method of a class, to be hunted on that target."""
    also: Callable[[str, type, str], Callable[[Method], Method]]
    """The function is another part of the mistake of that name."""


def declarations() -> Declarations:
    """The empty declarations of a file."""
    bugs: dict[str, Bug] = {}

    def bug(owner: type, method: str, target: str = "reference") -> Callable[[Method], Method]:
        def declare(mistake: Method) -> Method:
            bugs[mistake.__name__] = Bug(target, [(owner, method, mistake)])
            return mistake

        return declare

    def also(name: str, owner: type, method: str) -> Callable[[Method], Method]:
        def declare(mistake: Method) -> Method:
            bugs[name].mistakes.append((owner, method, mistake))
            return mistake

        return declare

    return Declarations(bugs, bug, also)
