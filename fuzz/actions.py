"""Actions: what a mutator asks of a heap, as plain frozen data.

Objects are named by root slot. The roots are a list: every allocation, every `Read` that finds an
object and every `LoadPrebuilt` appends a slot; `Free` deletes one, and the slots above it move
down. Invariant: no action combines two others, and an action means the same to every target.
"""

import re
from typing import Annotated, get_args

import attrs

Slot = Annotated[int, "a root slot"]
"""Names an object: the index of the root slot that holds it."""


@attrs.frozen
class Action:
    """What all actions are, and by which of the mutator's threads."""

    thread: int = attrs.field(default=0, kw_only=True)


@attrs.frozen
class AllocateNode(Action):
    """A node with an integer and two null references."""

    number: int
    nonmovable: bool = False


@attrs.frozen
class AllocateString(Action):
    """A string of `length` characters."""

    length: int
    nonmovable: bool = False


@attrs.frozen
class AllocateArray(Action):
    """An array of `length` null references."""

    length: int
    nonmovable: bool = False


@attrs.frozen
class AllocateWeakref(Action):
    """A weak reference to the object in slot `root`."""

    root: Slot


@attrs.frozen
class AllocateOldString(Action):
    """A string of `length` characters that lies outside the nursery and is old from the start."""

    length: int


@attrs.frozen
class Malloc(Action):
    """A block of `size_bytes`, which the mutator frees itself."""

    size_bytes: int


@attrs.frozen
class Calloc(Action):
    """A block of `count` times `size_bytes`, all zero."""

    count: int
    size_bytes: int


@attrs.frozen
class Realloc(Action):
    """Make the block in slot `root` one of `size_bytes`, wherever it lies then."""

    root: Slot
    size_bytes: int


@attrs.frozen
class LoadPrebuilt(Action):
    """Append the immortal object `index` to the roots."""

    index: int


@attrs.frozen
class Free(Action):
    """Delete the slot `root`, and with it a block that lies there."""

    root: Slot


@attrs.frozen
class Read(Action):
    """Read a field of a node (0 or 1) or an item of an array; an object found is appended.

    Observed: `value`, the lowest slot that holds the object found, or null.
    """

    root: Slot
    field: int


@attrs.frozen
class ReadNumber(Action):
    """Read a node's integer, or the length of a string or array. Observed: `value`."""

    root: Slot


@attrs.frozen
class ReadWeakref(Action):
    """Ask a weak reference for its object. Observed: `alive`."""

    root: Slot


@attrs.frozen
class Write(Action):
    """Store the object in slot `value`, or null, in a field of a node or an item of an array."""

    root: Slot
    field: int
    value: Slot | None


@attrs.frozen
class WriteNumber(Action):
    """Store an integer in a node."""

    root: Slot
    number: int


@attrs.frozen
class CopyArray(Action):
    """Copy `length` items between arrays, or within one."""

    source: Slot
    dest: Slot
    source_start: int
    dest_start: int
    length: int


@attrs.frozen
class TakeIdentity(Action):
    """Take an object's identity. Observed: `identity`."""

    root: Slot


@attrs.frozen
class Pin(Action):
    """From here on no collection moves the string in slot `root`, which is in the nursery."""

    root: Slot


@attrs.frozen
class Unpin(Action):
    """The object in slot `root` may be moved again."""

    root: Slot


@attrs.frozen
class SetCallback(Action):
    """From here on each collection that an allocation causes is followed by a callback.

    It allocates a string of `length` characters in the nursery and drops it at once. Without a
    length there is no callback any more.
    """

    length: int | None


@attrs.frozen
class AddMemoryPressure(Action):
    """So many bytes outside the heap depend on objects in it, which are worth collecting."""

    extra_bytes: int


@attrs.frozen
class CollectMinor(Action):
    """A minor collection and nothing else."""


@attrs.frozen
class CollectProgress(Action):
    """What a full nursery causes: a minor collection, and steps of a major one if it is due."""


@attrs.frozen
class CollectStep(Action):
    """A minor collection and one step of a major one."""


@attrs.frozen
class CollectFull(Action):
    """A full collection: what is unreachable is dead afterwards."""


@attrs.frozen
class EnableSampling(Action):
    """Sample every `period_bytes` from here on."""

    period_bytes: int


@attrs.frozen
class DisableSampling(Action):
    """Stop sampling; pending samples are reported by a minor collection, or dropped."""

    report: bool = False


@attrs.frozen
class PauseSampling(Action):
    """Stop sampling and drop the pending samples, but keep the period."""


@attrs.frozen
class ResumeSampling(Action):
    """Enable sampling again with the period that pausing kept, if it was paused."""


@attrs.frozen
class SetPeriod(Action):
    """From here on distances between samples are drawn for this period; the present one stays."""

    period_bytes: int


@attrs.frozen
class ReadProfile(Action):
    """Ask how much the samples of what is alive stand for. Observed: `profile`."""


@attrs.frozen
class Fork(Action):
    """The process goes on as a forked child: sampling is off, pending samples are dropped."""


@attrs.frozen
class CheckHeap(Action):
    """Walk all that is reachable. Observed: `graph`."""


ALLOCATIONS: frozenset[type[Action]] = frozenset(
    {
        AllocateNode,
        AllocateString,
        AllocateArray,
        AllocateWeakref,
        AllocateOldString,
        Malloc,
        Calloc,
    }
)
"""The actions that append a new object to the roots."""


def name_of(action: type[Action]) -> str:
    """The name that stands in a trace: `allocate_string` for AllocateString."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action.__name__).lower()


ACTIONS: dict[str, type[Action]] = {
    name_of(action): action for action in Action.__subclasses__() if action.__module__ == __name__
}
"""All actions by name."""
NAMES: dict[type[Action], str] = {action: name for name, action in ACTIONS.items()}
SLOT_FIELDS: dict[type[Action], tuple[str, ...]] = {
    action: tuple(
        field.name for field in attrs.fields(action) if Slot in (field.type, *get_args(field.type))
    )
    for action in NAMES
}
"""The fields of each action that name objects."""


def requested_bytes(action: Malloc | Calloc | Realloc) -> int:
    """How large a block is asked for."""
    return action.size_bytes * (action.count if isinstance(action, Calloc) else 1)


def kind_of(allocation: Action) -> str:
    """The kind of object that an allocation makes: `string` for AllocateOldString."""
    if isinstance(allocation, Malloc | Calloc):
        return "block"
    return NAMES[type(allocation)].removeprefix("allocate_").removeprefix("old_")
