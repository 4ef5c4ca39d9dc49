"""Mutations of lines of JSON, from unreadable bytes to a number that is off by one.

All randomness comes from the generator that is passed, so each input can be made again.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

EXTREMES: tuple[object, ...] = (
    *(0, 1, -1, 7, 255, 2**31, 2**53 + 1, 2**62, 2**62 + 1, 2**63, 2**64, -(2**62), -(2**64)),
    *(10**30, 10**300, 1.5, 1e308, -0.0, float("nan"), float("inf"), True, False, None, [], {}),
    *("", " ", "reference", "0", "\x1b[31mred\x1b[0m", "\x00", "\n", "a\r\nb", "\u202eabc\u2066"),
    *("\ud800", "\U0001d524", "[/x]", "[bold]b[/bold]", "[link=x]", "<script>", "{{page}}"),
    *("../../x", "%s%n{}", "x" * 10_000, [[]], {"a": {"b": []}}, list(range(1000))),
)
BYTES = (b"\x00", b"\xff\xfe", b"\x1b[2J", b"\r", b"\n", b"\n\n", b'"', b"{", b"]", b"\xed\xa0\x80")
WHOLE_LINES = (
    *("", " ", "null", "[]", "{}", "{", '"', "NaN", "[" * 5_000, '{"do": "collect_full"}'),
    *("[" * 200_000, "9" * 5_000, '{"a": ' * 3_000, "x" * 100_000, '{"do": "dance"}', "\ufeff{}"),
)
Mutation = Callable[[list[str], random.Random], list[str]]


def mutated(lines: list[str], rng: random.Random) -> bytes:
    """The lines as a file, after one to five mutations.

    A mutation does nothing if the file would be too large. Three may repeat one list 300 times
    each, and to make such a file takes more memory than a command may have.
    """
    for _ in range(rng.choice((1, 1, 1, 1, 2, 5))):
        with contextlib.suppress(MemoryError):
            changed = rng.choice(MUTATIONS)(lines, rng)
            if changed and sum(map(len, changed)) <= CHARACTERS_MAX:
                lines = changed
    content = "".join(line + "\n" for line in lines).encode(errors="surrogatepass")
    return _other_bytes(content, rng) if rng.random() < BYTES_SHARE else content


BYTES_SHARE = 0.1
CHARACTERS_MAX = 100_000_000


def _other_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip bits, insert bytes, or cut off the end."""
    changed = bytearray(content)
    at = rng.randrange(len(changed) + 1)
    match rng.randrange(3):
        case 0:
            for _ in range(rng.choice((1, 1, 8))):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        case 1:
            changed[at:at] = rng.choice(BYTES)
        case 2:
            del changed[at:]
    return bytes(changed)


def _drop(lines: list[str], rng: random.Random) -> list[str]:
    at = rng.randrange(len(lines))
    return lines[:at] + lines[at + 1 :]


def _duplicate(lines: list[str], rng: random.Random) -> list[str]:
    at = rng.randrange(len(lines))
    return lines[:at] + [lines[at]] * rng.choice((2, 2, 2, 50)) + lines[at + 1 :]


def _swap(lines: list[str], rng: random.Random) -> list[str]:
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    swapped = list(lines)
    swapped[first], swapped[second] = lines[second], lines[first]
    return swapped


def _other_line(lines: list[str], rng: random.Random) -> list[str]:
    at = rng.randrange(len(lines))
    return [*lines[:at], rng.choice(WHOLE_LINES), *lines[at + rng.randrange(2) :]]


def _double_key(lines: list[str], rng: random.Random) -> list[str]:
    """Repeat the first key of a line."""
    at = rng.randrange(len(lines))
    first = lines[at].partition(",")[0]
    return [*lines[:at], lines[at].replace(first, f"{first}, {first[1:]}", 1), *lines[at + 1 :]]


def _other_value(lines: list[str], rng: random.Random) -> list[str]:
    """Change, remove or add one value, key or item in one line."""
    at = rng.randrange(len(lines))
    try:
        data = json.loads(lines[at])
    except (ValueError, RecursionError):  # An earlier mutation broke this line.
        return lines
    parent, key = _place_in(data, rng)
    if parent is None:
        data = rng.choice(EXTREMES)
    else:
        rng.choice(CHANGES)(parent, key, rng)
    return [*lines[:at], json.dumps(data), *lines[at + 1 :]]


MUTATIONS: tuple[Mutation, ...] = (
    *(_drop, _duplicate, _swap, _other_line, _double_key),
    *[_other_value] * 20,
)


def _place_in(data: Any, rng: random.Random) -> tuple[Any, Any]:  # noqa: ANN401 - JSON
    """A container in the data and one of its keys; None if there is no container."""
    parent, key, deeper = None, None, data
    while isinstance(deeper, dict | list) and deeper:
        parent = deeper
        key = rng.choice([*deeper] if isinstance(deeper, dict) else range(len(deeper)))
        deeper = deeper[key]
        if rng.random() < STOP_SHARE:
            break
    return parent, key


STOP_SHARE = 0.2


def _be_extreme(parent: Any, key: Any, rng: random.Random) -> None:  # noqa: ANN401 - JSON
    parent[key] = rng.choice(EXTREMES)


def _be_near(parent: Any, key: Any, rng: random.Random) -> None:  # noqa: ANN401 - JSON
    value = parent[key]
    if type(value) is int:
        parent[key] = rng.choice((value + 1, value - 1, -value, value * 2, value // 2, value + 8))
    elif isinstance(value, str):
        parent[key] = rng.choice((value[1:], value + value, value.upper(), value + "\u0301"))
    elif isinstance(value, list):
        parent[key] = rng.choice((value[1:], value + value, value[::-1], value * 300))
    else:
        parent[key] = rng.choice((not value, 0))


def _be_wrapped(parent: Any, key: Any, _: random.Random) -> None:  # noqa: ANN401 - JSON
    parent[key] = [parent[key]]


def _be_gone(parent: Any, key: Any, _: random.Random) -> None:  # noqa: ANN401 - JSON
    del parent[key]


def _be_there_too(parent: Any, key: Any, rng: random.Random) -> None:  # noqa: ANN401 - JSON
    if isinstance(parent, dict):
        name = rng.choice(("x", "", "[/x]", "\x1b", "thread", "contract", "config", "do"))
        parent[name] = rng.choice((parent[key], rng.choice(EXTREMES)))
    else:
        parent.insert(key, parent[rng.randrange(len(parent))])


CHANGES = (*[_be_near] * 8, *[_be_extreme] * 4, _be_wrapped, _be_gone, _be_there_too)
