"""Actions: what a mutator asks of a heap, as plain frozen data.

Objects are named by root slot. The roots are a list: every allocation, every `Read` that finds an
object and every `LoadPrebuilt` appends a slot; `Free` deletes one, and the slots above it move
down. Invariant: no action combines two others, and an action means the same to every target.

An action's class is its declaration: its docstring is its row in docs/protocol.md, its class
variables say what it does, and the types of its fields what they may be. Legality, the shadow, the
oracles, the forecast and the reduction ask there, so that they need no word of an action that does
nothing new.
"""

import re
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import attrs

from fuzz.protocol.contract import Range

# What a field may be. What that is in figures under a contract, fuzz/mutator/legality.py says.


@attrs.frozen
class SlotOf:
    """A root slot: it names the object that it holds, of one of these kinds if there are any."""

    kinds: tuple[str, ...] = ()
    or_null: bool = False


@attrs.frozen
class ItemOf:
    """One of the references of the object in a slot: a field of a node or an item of an array.

    It is the first of as many as the field `length` says, or the only one.
    """

    slot: str
    length: str | None = None


@attrs.frozen
class LengthOf:
    """The length of an object of that kind: of any, or of one that an empty nursery takes."""

    kind: str
    in_nursery: bool = False


@attrs.frozen
class BlockBytes:
    """The size of a block, or of each of as many as the field `times` says; at least `minimum`."""

    minimum: int = 0
    times: str | None = None


@attrs.frozen
class PrebuiltIndex:
    """The number of a prebuilt object."""


@attrs.frozen
class PeriodBytes:
    """A period that the sampling rule allows."""


Bound: TypeAlias = SlotOf | ItemOf | LengthOf | BlockBytes | PrebuiltIndex | PeriodBytes | Range
PRESSURES = Range(1, 2**40)
SHARES = Range(1, 2**20)
FIRST_NUMBERS = Range(0, 2**31 - 1)
Slot = Annotated[int, SlotOf()]
Block = Annotated[int, SlotOf(("block",))]
Array = Annotated[int, SlotOf(("array",))]
WithReferences = Annotated[int, SlotOf(("node", "array"))]
Number = Annotated[int, Range(-(2**63), 2**63 - 1)]
Period = Annotated[int, PeriodBytes()]
StringLength = Annotated[int, LengthOf("string")]

# What an action does.

Collects = Literal["never", "minor", "step", "progress", "full"]
"""What of a collector's work is part of an action: nothing; a minor collection; one, and a step of
a major one; at least one, and what of a major one is due; at least one, and all of a major one."""
Sampling = Literal["starts", "stops", "pauses", "resumes", "sets period"]


@attrs.frozen
class Action:
    """What all actions are, and by which of the mutator's threads."""

    thread: int = attrs.field(default=0, kw_only=True)

    kind: ClassVar[str | None] = None
    """The kind of object that it makes, now or later, or asks about: a layout must have it."""
    allocates: ClassVar[bool] = False
    """Whether it appends a new object of that kind to the roots, for which it may collect."""
    old: ClassVar[bool] = False
    """Whether that object lies outside the nursery and is old from the start."""
    collects: ClassVar[Collects] = "never"
    """What is always part of it; where it has a field `report`, only if that is true."""
    sampling: ClassVar[Sampling | None] = None
    """What becomes of sampling."""
    answer: ClassVar[str | None] = None
    """The field of the observation that answers it."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The fields of observations without which nobody can judge what it does."""

    def __init_subclass__(cls) -> None:
        # What a class has attrs does not make: to compile these takes a third of its time, and all
        # that use actions are begun often.
        for name in ("__eq__", "__hash__", "__repr__"):
            setattr(cls, name, getattr(Action, name))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and attrs.astuple(self) == attrs.astuple(other)

    def __hash__(self) -> int:
        return hash((type(self), attrs.astuple(self)))

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in FIELD_NAMES[type(self)])
        return f"{type(self).__name__}({', '.join(fields)})"

    def by(self, thread: int) -> Self:
        """The same, by that thread. (attrs.evolve takes three times as long.)"""
        fields = {name: getattr(self, name) for name in FIELD_NAMES[type(self)]}
        fields["thread"] = thread
        return type(self)(**fields)


@attrs.frozen
class AllocateNode(Action):
    """A node: an integer and two references, null at first."""

    kind: ClassVar = "node"
    allocates: ClassVar = True
    number: Number
    nonmovable: bool = False


@attrs.frozen
class AllocateString(Action):
    """A string of `length` characters."""

    kind: ClassVar = "string"
    allocates: ClassVar = True
    length: StringLength
    nonmovable: bool = False


@attrs.frozen
class AllocateArray(Action):
    """An array of `length` null references."""

    kind: ClassVar = "array"
    allocates: ClassVar = True
    length: Annotated[int, LengthOf("array")]
    nonmovable: bool = False


@attrs.frozen
class AllocateWeakref(Action):
    """A weak reference to the object in slot `root`."""

    kind: ClassVar = "weakref"
    allocates: ClassVar = True
    root: Slot


@attrs.frozen
class AllocateOldString(Action):
    """A string of `length` characters that lies outside the nursery and is old from the start."""

    kind: ClassVar = "string"
    allocates: ClassVar = True
    old: ClassVar = True
    length: StringLength


@attrs.frozen
class Malloc(Action):
    """A block of `size_bytes`, which only `free` ends."""

    kind: ClassVar = "block"
    allocates: ClassVar = True
    size_bytes: Annotated[int, BlockBytes()]


@attrs.frozen
class Calloc(Action):
    """A block of `count` times `size_bytes`, all zero."""

    kind: ClassVar = "block"
    allocates: ClassVar = True
    count: int
    size_bytes: Annotated[int, BlockBytes(times="count")]


@attrs.frozen
class Realloc(Action):
    """Make the block in slot `root` one of `size_bytes`, at least 1, wherever it lies then."""

    # One so small that it has no byte would be freed.
    kind: ClassVar = "block"
    answer: ClassVar = "size"
    root: Block
    size_bytes: Annotated[int, BlockBytes(minimum=1)]


@attrs.frozen
class LoadPrebuilt(Action):
    """Append the immortal object `index` to the roots."""

    index: Annotated[int, PrebuiltIndex()]


@attrs.frozen
class Free(Action):
    """Delete the slot `root`, and with it a block that lies there."""

    root: Slot


@attrs.frozen
class Read(Action):
    """Read a node's reference (0 or 1) or an array's item; an object found is appended.

    The value is the lowest slot that holds it, or null.
    """

    answer: ClassVar = "value"
    root: WithReferences
    field: Annotated[int, ItemOf("root")]


@attrs.frozen
class ReadNumber(Action):
    """Read a node's integer, or the length of a string or array."""

    answer: ClassVar = "value"
    root: Annotated[int, SlotOf(("node", "string", "array"))]


@attrs.frozen
class ReadWeakref(Action):
    """Ask a weak reference whether its object is alive."""

    answer: ClassVar = "alive"
    root: Annotated[int, SlotOf(("weakref",))]


@attrs.frozen
class Write(Action):
    """Store the object in slot `value`, or null, in a field of a node or an item of an array."""

    root: WithReferences
    field: Annotated[int, ItemOf("root")]
    value: Annotated[int | None, SlotOf(or_null=True)]


@attrs.frozen
class WriteNumber(Action):
    """Store an integer in a node."""

    root: Annotated[int, SlotOf(("node",))]
    number: Number


@attrs.frozen
class CopyArray(Action):
    """Copy `length` items between arrays, or within one."""

    source: Array
    dest: Array
    source_start: Annotated[int, ItemOf("source", "length")]
    dest_start: Annotated[int, ItemOf("dest", "length")]
    length: int


@attrs.frozen
class TakeIdentity(Action):
    """Take a number that the object keeps and no other living one has."""

    answer: ClassVar = "identity"
    root: Slot


@attrs.frozen
class Pin(Action):
    """From here on no collection moves the string in slot `root`, which is in the nursery."""

    needs: ClassVar = ("minors",)
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

    kind: ClassVar = "string"
    needs: ClassVar = ("order",)
    length: Annotated[int | None, LengthOf("string", in_nursery=True)]


@attrs.frozen
class AddMemoryPressure(Action):
    """So many bytes outside the heap depend on objects in it, which are worth collecting."""

    extra_bytes: Annotated[int, PRESSURES]


@attrs.frozen
class CollectMinor(Action):
    """A minor collection and nothing else."""

    collects: ClassVar = "minor"


@attrs.frozen
class CollectProgress(Action):
    """What a full nursery causes: a minor collection, and steps of a major one if it is due."""

    collects: ClassVar = "progress"


@attrs.frozen
class CollectStep(Action):
    """A minor collection and one step of a major one."""

    collects: ClassVar = "step"


@attrs.frozen
class CollectFull(Action):
    """A full collection: what is unreachable is dead afterwards."""

    collects: ClassVar = "full"


@attrs.frozen
class EnableSampling(Action):
    """Sample every `period_bytes` from here on."""

    sampling: ClassVar = "starts"
    period_bytes: Period


@attrs.frozen
class DisableSampling(Action):
    """Stop sampling; pending samples are reported by a minor collection, or dropped."""

    sampling: ClassVar = "stops"
    collects: ClassVar = "minor"
    report: bool = False


@attrs.frozen
class PauseSampling(Action):
    """Stop sampling and drop the pending samples, but keep the period."""

    sampling: ClassVar = "pauses"


@attrs.frozen
class ResumeSampling(Action):
    """Enable sampling again with the period that pausing kept, if it was paused."""

    sampling: ClassVar = "resumes"


@attrs.frozen
class SetPeriod(Action):
    """From here on distances between samples are drawn for this period; the present one stays."""

    sampling: ClassVar = "sets period"
    period_bytes: Period


@attrs.frozen
class ReadProfile(Action):
    """Ask how much the samples of living blocks stand for."""

    kind: ClassVar = "block"
    answer: ClassVar = "profile"
    needs: ClassVar = ("samples", "profile")


@attrs.frozen
class Fork(Action):
    """The process goes on as a forked child: sampling is off, pending samples are dropped."""

    sampling: ClassVar = "stops"


@attrs.frozen
class EndThread(Action):
    """The thread ends, which is not the first one, until one of that number begins."""


@attrs.frozen
class BeginThread(Action):
    """A thread begins, with the number of one that has ended; then a full collection.

    So nobody need know where that lies which it allocates before its first action.
    """

    collects: ClassVar = "full"
    answer: ClassVar = "seed"


@attrs.frozen
class RunAtOnce(Action):
    """All threads at once: each makes `objects` nodes and strings, and reads each node again."""

    kind: ClassVar = "node"
    answer: ClassVar = "shares"
    needs: ClassVar = ("shares", "samples")
    objects: Annotated[int, SHARES]
    first: Annotated[int, FIRST_NUMBERS]


@attrs.frozen
class CheckHeap(Action):
    """Walk all that is reachable."""

    answer: ClassVar = "graph"


def name_of(action: type[Action]) -> str:
    """The name that stands in a trace: `allocate_string` for AllocateString."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action.__name__).lower()


ACTIONS: dict[str, type[Action]] = {}
"""All actions by name."""
NAMES: dict[type[Action], str] = {}
BOUNDS: dict[type[Action], dict[str, Bound]] = {}
"""What the fields of each action may be, by name; one that is missing may be anything."""
FIELD_NAMES: dict[type[Action], tuple[str, ...]] = {}
SLOT_FIELDS: dict[type[Action], tuple[str, ...]] = {}
"""The fields of each action that name objects."""


def register(action: type[Action]) -> None:
    """Make a class an action of the format, as all in this module are."""
    ACTIONS[name_of(action)], NAMES[action] = action, name_of(action)
    FIELD_NAMES[action] = tuple(field.name for field in attrs.fields(action))
    BOUNDS[action] = {
        field.name: bound
        for field in attrs.fields(action)
        for bound in getattr(field.type, "__metadata__", ())
    }
    SLOT_FIELDS[action] = tuple(
        name for name, bound in BOUNDS[action].items() if isinstance(bound, SlotOf)
    )


# Not Action.__subclasses__(): it also yields the classes without slots, of which attrs makes those
# that stand in this module, until they are collected.
for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, Action) and _each is not Action:
        register(_each)


def collects(action: Action) -> Collects:
    """What a collector does in any case to carry out this very action."""
    return action.collects if getattr(action, "report", True) else "never"


def requested_bytes(action: Malloc | Calloc | Realloc) -> int:
    """How large a block is asked for."""
    return action.size_bytes * (action.count if isinstance(action, Calloc) else 1)
