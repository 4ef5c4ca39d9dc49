"""Why an old space must use that many bytes: the objects that live, and those of the difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fuzz.mutator.objects import ShadowObject

LISTED_MAX = 4
"""At most this many objects are named."""
Sizes = Mapping[ShadowObject, int]
"""Objects, and the bytes that each takes in the old space."""


def describe_used(got: int, bounds: tuple[int, int], living: Sizes, dead: Sizes) -> str:
    """The living objects, and which object is as large as the difference.

    `dead` are those that died since the full collection before.
    """
    least, most = bounds
    lives = f"{_listed(living)}: {_bytes(sum(living.values()))}"
    if least != most:
        lives += f", and at most {most - least} for places of dead pinned objects"
    difference_bytes = got - most if got > most else least - got
    of_difference = dead if got > most else living
    like = [obj for obj, size_bytes in of_difference.items() if size_bytes == difference_bytes]
    if like:
        which = " or ".join(obj.label for obj in _in_order(like)[:LISTED_MAX])
        state = "dead" if got > most else "alive"
        more_or_less = "more" if got > most else "less"
        lives += f"; {_bytes(difference_bytes)} {more_or_less}, as {which} takes, which is {state}"
    return lives


def _listed(living: Sizes) -> str:
    if not living:
        return "nothing old lives"
    objects = _in_order(living)
    words = [f"{obj.label} ({living[obj]})" for obj in objects[:LISTED_MAX]]
    if len(objects) > LISTED_MAX:
        words.append(f"{len(objects) - LISTED_MAX} more")
    return f"alive and old are {' and '.join(words)}"


def _in_order(objects: Collection[ShadowObject]) -> list[ShadowObject]:
    """By their names, whose numbers are those of the actions that allocated them."""
    return sorted(objects, key=lambda obj: (len(obj.name), obj.name))


def _bytes(count: int) -> str:
    return f"{count} byte{'' if count == 1 else 's'}"
