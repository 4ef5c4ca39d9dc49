"""Recorded sessions of PyPy's own collector: commands, answers, and what the commands mean."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import pytest

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action

SHIPPED = Path(__file__).parents[1] / "recordings"
"""`plain` and `sampling` are the same sessions without sampling and with it. `deep` has internal
figures, `pin` has pins that the collector mostly refuses, `more` has pinned objects that divide the
nursery, and copied cards. Each session of `finds` has the findings that it shows in its name. `off`
has pins mostly while sampling is off; those sessions with `unread-top` in their names show that the
collector keeps a wrong `real_top` as long as nothing reads it."""

DEFAULT_LARGE_OBJECT_BYTES = 64
NODE_FIELDS = {"prev": 0, "next": 1}
COLLECT_AND_REPORT = -1

JsonObject = dict[str, Any]
Step = tuple[JsonObject, JsonObject]
"""A command and its answer."""


@attrs.frozen
class Session:
    """A recorded session: the commands of a collector and its answers."""

    archive: str
    name: str
    text: str = attrs.field(repr=False)

    def steps(self) -> list[Step]:
        """With a `real_top` that was never read as it should be; all else is as recorded."""
        return [
            (command, answer | {"real_top": answer["top"]} if is_top_unread(answer) else answer)
            for command, answer in self.recorded_steps()
        ]

    def recorded_steps(self) -> list[Step]:
        lines = [json.loads(line) for line in self.text.splitlines()]
        return [(line["cmd"], line["ans"]) for line in lines]


def is_top_unread(answer: JsonObject) -> bool:
    """Whether `real_top` is stale. Without a sample point the collector does not read it."""
    return answer.get("sample_point") is None and answer.get("real_top") != answer.get("top")


# Reading the recordings.


def sessions_of(path: Path) -> Iterator[Session]:
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and member.name.endswith(".jsonl"):
                text = io.TextIOWrapper(content, "utf-8").read()
                yield Session(path.name.removesuffix(".tar.xz"), Path(member.name).name, text)


SESSIONS = sorted(
    chain.from_iterable(map(sessions_of, SHIPPED.glob("*.tar.xz"))),
    key=lambda each: (each.archive, each.name),
)
PLAIN, SAMPLING = (
    {each.name: each for each in SESSIONS if each.archive == f"incminimark-{kind}"}
    for kind in ("plain", "sampling")
)
"""The sessions recorded twice, under the same name: without sampling and with it."""
ONE_IN = 4
"""The fast tests take one of that many recordings."""

each_session = pytest.mark.parametrize(
    "session",
    [
        pytest.param(
            each, marks=[pytest.mark.slow] * (number % ONE_IN > 0), id=f"{each.archive}/{each.name}"
        )
        for number, each in enumerate(SESSIONS)
    ],
)


# What the commands mean.


def field_of(command: JsonObject) -> int:
    """The number of a node's field, or of an array's item."""
    field = command["field"]
    return NODE_FIELDS[field] if isinstance(field, str) else int(field)


def node(command: JsonObject, slot: int, number: int) -> list[Action]:
    links = [do.Write(slot, field, command[name]) for name, field in NODE_FIELDS.items()]
    return [do.AllocateNode(number), *links]


def array(command: JsonObject, slot: int, _number: int) -> list[Action]:
    items = [do.Write(slot, index, root) for index, root in enumerate(command["items"])]
    return [do.AllocateArray(command["length"]), *items]


def read(command: JsonObject, *_: int) -> list[Action]:
    root = command["root"]
    return [do.ReadNumber(root) if command["field"] == "x" else do.Read(root, field_of(command))]


def copy_array(command: JsonObject, *_: int) -> list[Action]:
    names = ("source", "dest", "source_start", "dest_start", "length")
    return [do.CopyArray(*[command[name] for name in names])]


COMMANDS: dict[str, Callable[[JsonObject, int, int], list[Action]]] = {
    "setup": lambda *_: [],
    "noop": lambda *_: [],
    "malloc_node": node,
    "malloc_array": array,
    "malloc_string": lambda command, *_: [do.AllocateString(command["length"])],
    "malloc_string_nonmovable": lambda command, *_: [do.AllocateString(command["length"], True)],
    "malloc_weakref": lambda command, *_: [do.AllocateWeakref(command["root"])],
    "drop": lambda command, *_: [do.Free(command["root"])],
    "read": read,
    "write": lambda command, *_: [do.Write(command["root"], field_of(command), command["value"])],
    "copy_array": copy_array,
    "deref": lambda command, *_: [do.ReadWeakref(command["root"])],
    "id": lambda command, *_: [do.TakeIdentity(command["root"])],
    "pin": lambda command, *_: [do.Pin(command["root"])],
    "unpin": lambda command, *_: [do.Unpin(command["root"])],
    "enable_sampling": lambda command, *_: [do.EnableSampling(command["period"])],
    "disable_sampling": lambda each, *_: [do.DisableSampling(each["how"] == COLLECT_AND_REPORT)],
    "minor": lambda *_: [do.CollectMinor()],
    "minor_progress": lambda *_: [do.CollectProgress()],
    "major_step": lambda *_: [do.CollectStep()],
    "collect": lambda *_: [do.CollectFull()],
    "check": lambda *_: [do.CheckHeap()],
    "finish": lambda *_: [do.CollectFull(), do.CheckHeap()],
}
"""The actions of a command, by the slot of what it allocates and the number of a node."""


# What an answer shows.


def is_limit_stale(answer: JsonObject) -> bool:
    """Whether the limit stayed behind the sample point and the end of the room."""
    sample_point = answer.get("sample_point")
    return sample_point is not None and answer["top"] < min(sample_point, answer["real_top"])


def is_beyond_room(answer: JsonObject) -> bool:
    """Whether the limit lies beyond the end of the room that the sampler assumes."""
    return "top" in answer and answer["top"] > answer["real_top"]


def has_pinned(steps: Sequence[Step]) -> bool:
    return any(answer.get("pinned") for _, answer in steps)
