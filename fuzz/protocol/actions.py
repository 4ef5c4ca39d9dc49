"""Actions: what a mutator does with a heap, as plain frozen data.

A root slot names an object. The roots are a list: an allocation, a `Read` that finds an object and
a `LoadPrebuilt` append a slot. `Free` deletes one, and the slots above it move down. Invariant: no
action combines two others, and an action means the same for every target.

An action's class declares it: the docstring is its row in docs/protocol.md, the arguments of the
class say what it does, and the types of its fields say what they may be. Legality, the shadow, the
oracles, the forecast and the reduction read these declarations.
"""

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import attrs

from fuzz.protocol import groups
from fuzz.protocol.contract import Range
from fuzz.protocol.counting.limits import Count
from fuzz.protocol.layout import Layout

# What a field may be. fuzz/mutator/legality.py computes the legal values under a contract.


@attrs.frozen
class SlotOf:
    """A root slot that holds an object of one of these kinds, or of any kind if there are none."""

    kinds: tuple[str, ...] = ()
    or_null: bool = False


@attrs.frozen
class ItemOf:
    """A reference of the object in a slot: a field of a node or an item of an array.

    It is the first of `length` references, if there is such a field.
    """

    slot: str
    length: str | None = None


@attrs.frozen
class LengthOf:
    """The length of an object of that kind, which may have to fit in the empty nursery."""

    kind: str
    in_nursery: bool = False


@attrs.frozen
class BlockBytes:
    """The size of a block, or of each of `times` items of it; at least `minimum`."""

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
NUMBERS = Range(-(2**63), 2**63 - 1)
FIRST_NUMBERS = REGISTRATIONS = Range(0, 2**31 - 1)
Slot = Annotated[int, SlotOf()]
Block = Annotated[int, SlotOf(("block",))]
Array = Annotated[int, SlotOf(("array",))]
WithReferences = Annotated[int, SlotOf(("node", "array"))]
Node = Annotated[int, SlotOf(("node",))]
Number = Annotated[int, NUMBERS]
Registration = Annotated[int, REGISTRATIONS]
Period = Annotated[int, PeriodBytes()]
StringLength = Annotated[int, LengthOf("string")]

# What an action does.

Collects = Literal["never", "minor", "step", "progress", "full"]
"""The collections that are part of an action.

minor: one minor collection.
step: one minor collection and a step of a major one.
progress: at least one minor collection, and the steps of a major one that are due.
full: at least one minor collection, and a complete major one.
"""
Sampling = Literal["starts", "stops", "pauses", "resumes", "sets period"]


@attrs.frozen
class Action:
    """The base class of all actions."""

    thread: int = attrs.field(default=0, kw_only=True)
    """The thread that carries it out."""

    kind: ClassVar[str | None] = None
    """The kind of object that it uses. The layout must have this kind."""
    allocates: ClassVar[bool] = False
    """Whether it appends a new object of that kind, or a group, to the roots. Then it may collect.
    """
    old: ClassVar[bool] = False
    """Whether that object lies outside the nursery and is old from the start."""
    collects: ClassVar[Collects] = "never"
    """The collections that are part of it; if it has a field `report`, only if that is true."""
    sampling: ClassVar[Sampling | None] = None
    """What it does to sampling."""
    answer: ClassVar[str | None] = None
    """The field of the observation that answers it."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The fields of observations that an oracle needs to judge it."""

    def __init_subclass__(cls, **declared: Any) -> None:  # noqa: ANN401 - see above
        """`declared` are the values of the class variables."""
        assert declared.keys() <= vars(Action).keys()
        # So attrs does not compile these methods, which takes a third of the import time.
        methods = {name: getattr(Action, name) for name in ("__eq__", "__hash__", "__repr__")}
        for name, value in {**methods, **declared}.items():
            setattr(cls, name, value)

    def __eq__(self, other: object) -> bool:
        kind = type(self)
        return kind is type(other) and _VALUES[kind](self) == _VALUES[kind](other)

    def __hash__(self) -> int:
        kind = type(self)
        return hash((kind, _VALUES[kind](self)))

    def __repr__(self) -> str:
        names = (field.name for field in attrs.fields(type(self)))
        fields = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({', '.join(fields)})"

    def by(self, thread: int) -> Self:
        """The same action by another thread."""
        return self.changed({"thread": thread})

    def changed(self, fields: Mapping[str, int | None]) -> Self:
        """The same action with other values of some fields. (attrs.evolve takes longer.)"""
        values: dict[str, Any] = {name: getattr(self, name) for name in FIELD_NAMES[type(self)]}
        values.update(fields)
        return type(self)(**values)


@attrs.frozen
class AllocateNode(Action, kind="node", allocates=True):
    """A node: an integer and two references, null at first.

    A `destructor` is a finalizer that it has from the start, which has a new number.
    """

    number: Number
    nonmovable: bool = False
    destructor: Annotated[int | None, REGISTRATIONS] = None


@attrs.frozen
class AllocateString(Action, kind="string", allocates=True):
    """A string of `length` characters."""

    length: StringLength
    nonmovable: bool = False


@attrs.frozen
class AllocateArray(Action, kind="array", allocates=True):
    """An array of `length` null references."""

    length: Annotated[int, LengthOf("array")]
    nonmovable: bool = False


@attrs.frozen
class Member:
    """An object of a group: a node with an integer, or a string or an array of some length."""

    kind: groups.MemberKind
    number: Number = 0
    length: Count = 0

    def __str__(self) -> str:
        fields = (("number", self.number), ("length", self.length))
        return " ".join([self.kind, *(f"{name}={value}" for name, value in fields if value)])


@attrs.frozen
class AllocateGroup(Action, allocates=True):
    """Several objects by one allocation, side by side in the nursery. Each becomes a root."""

    members: tuple[Member, ...]


@attrs.frozen
class AllocateWeakref(Action, kind="weakref", allocates=True):
    """A weak reference to the object in slot `root`."""

    root: Slot


@attrs.frozen
class AllocateEphemeron(Action, kind="ephemeron", allocates=True):
    """A pair that refers weakly to `key`, and to `value` as long as `key` is alive."""

    key: WithReferences
    value: WithReferences


@attrs.frozen
class AllocateOldString(Action, kind="string", allocates=True, old=True):
    """A string of `length` characters that lies outside the nursery and is old from the start."""

    length: StringLength


@attrs.frozen
class Malloc(Action, kind="block", allocates=True):
    """A block of `size_bytes`, which only `free` ends."""

    size_bytes: Annotated[int, BlockBytes()]


@attrs.frozen
class Calloc(Action, kind="block", allocates=True):
    """A block of `count` times `size_bytes`, all zero."""

    count: int
    size_bytes: Annotated[int, BlockBytes(times="count")]


@attrs.frozen
class Realloc(Action, kind="block", answer="size"):
    """Resize the block in slot `root` to `size_bytes`, at least 1. It may move."""

    root: Block
    size_bytes: Annotated[int, BlockBytes(minimum=1)]


@attrs.frozen
class LoadPrebuilt(Action):
    """Append the prebuilt object `index` to the roots."""

    index: Annotated[int, PrebuiltIndex()]


@attrs.frozen
class Free(Action):
    """Delete the slot `root`. A block in it is freed."""

    root: Slot


@attrs.frozen
class Read(Action, answer="value"):
    """Read a node's reference (0 or 1) or an array's item.

    If it is not null, append the object to the roots. The value is the lowest slot that then holds
    the object, or null.
    """

    root: WithReferences
    field: Annotated[int, ItemOf("root")]


@attrs.frozen
class ReadNumber(Action, answer="value"):
    """Read a node's integer, or the length of a string or array."""

    root: Annotated[int, SlotOf(("node", "string", "array"))]


@attrs.frozen
class ReadWeakref(Action, answer="alive"):
    """Read whether the object of a weak reference is alive.

    With `keep`, append the object to the roots; if it is dead, the weak reference once more.
    """

    root: Annotated[int, SlotOf(("weakref",))]
    keep: bool = False


@attrs.frozen
class ReadEphemeron(Action, answer="value"):
    """Read the integer or the length of an ephemeron's value, or null if its key is dead."""

    root: Annotated[int, SlotOf(("ephemeron",))]


@attrs.frozen
class Write(Action):
    """Store the object in slot `value`, or null, in a field of a node or an item of an array."""

    root: WithReferences
    field: Annotated[int, ItemOf("root")]
    value: Annotated[int | None, SlotOf(or_null=True)]


@attrs.frozen
class WriteNumber(Action):
    """Store an integer in a node."""

    root: Node
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
class FillArray(Action):
    """Store the object in slot `value`, or null, in each item of an array."""

    root: Array
    value: Annotated[int | None, SlotOf(or_null=True)]


@attrs.frozen
class MoveArray(Action):
    """Move `length` items within an array, to a range that may overlap theirs."""

    root: Array
    source_start: Annotated[int, ItemOf("root", "length")]
    dest_start: Annotated[int, ItemOf("root", "length")]
    length: int


@attrs.frozen
class TakeIdentity(Action, answer="identity"):
    """Read a number that identifies the object. No other living object has it."""

    root: Slot


@attrs.frozen
class Pin(Action, needs=("minors",)):
    """Pin the string in slot `root`, which is in the nursery: no collection moves it."""

    root: Slot


@attrs.frozen
class Unpin(Action):
    """Unpin the object in slot `root`: collections may move it again."""

    root: Slot


@attrs.frozen
class RegisterFinalizer(Action):
    """Give the node in slot `root` a finalizer, which has a new number."""

    root: Node
    number: Registration


@attrs.frozen
class UnregisterFinalizer(Action):
    """The finalizers of the node in slot `root` are not called, unless they are pending.

    Its destructor is.
    """

    root: Node


@attrs.frozen
class RunFinalizers(Action, answer="finalized", needs=("finalized", "minors")):
    """Run the pending finalizers, and drop their objects.

    With `keep`, the objects stay until the next time, so that they can be resurrected.
    """

    keep: bool = False


@attrs.frozen
class Resurrect(Action):
    """Append the object whose finalizer has that number, and that was kept, to the roots."""

    number: Registration


@attrs.frozen
class SetCallback(Action, kind="string", needs=("order",)):
    """From here on, a callback follows each collection that an allocation causes.

    It allocates a string of `length` characters in the nursery and drops it at once. Without a
    length, there is no callback.
    """

    length: Annotated[int | None, LengthOf("string", in_nursery=True)]


@attrs.frozen
class AddMemoryPressure(Action):
    """Report that objects in the heap hold `extra_bytes` outside it."""

    extra_bytes: Annotated[int, PRESSURES]


@attrs.frozen
class CollectMinor(Action, collects="minor"):
    """A minor collection and nothing else."""


@attrs.frozen
class CollectProgress(Action, collects="progress"):
    """The collection that a full nursery causes: a minor one, and the due steps of a major one."""


@attrs.frozen
class CollectStep(Action, collects="step"):
    """One step of a major collection, after a minor one if `collections` is promised."""


@attrs.frozen
class CollectFull(Action, collects="full"):
    """A full collection: unreachable objects are dead after it."""


@attrs.frozen
class EnableSampling(Action, sampling="starts"):
    """From here on, sample with this period."""

    period_bytes: Period


@attrs.frozen
class DisableSampling(Action, sampling="stops", collects="minor"):
    """Stop sampling. A minor collection reports the pending samples, or they are dropped."""

    report: bool = False


@attrs.frozen
class PauseSampling(Action, sampling="pauses"):
    """Stop sampling and drop the pending samples, but keep the period."""


@attrs.frozen
class ResumeSampling(Action, sampling="resumes"):
    """Enable sampling with the kept period, if it was paused."""


@attrs.frozen
class SetPeriod(Action, sampling="sets period"):
    """From here on, draw distances for this period. The present distance remains."""

    period_bytes: Period


@attrs.frozen
class ReadProfile(Action, kind="block", answer="profile", needs=("samples", "profile")):
    """Read what the samples of living blocks stand for."""


@attrs.frozen
class Fork(Action, sampling="stops"):
    """Continue in a forked child: sampling is off, and pending samples are dropped."""


@attrs.frozen
class EndThread(Action):
    """The thread, which is not the first one, ends. A new one may begin with its number."""


@attrs.frozen
class BeginThread(Action, collects="full", answer="seed"):
    """A thread begins with the number of one that has ended. A full collection follows.

    The collection makes the thread's own start-up allocations irrelevant.
    """


@attrs.frozen
class RunAtOnce(Action, kind="node", answer="shares", needs=("shares", "samples")):
    """All threads at once allocate `objects` nodes and strings each, and read each node again."""

    objects: Annotated[int, SHARES]
    first: Annotated[int, FIRST_NUMBERS]


@attrs.frozen
class CheckHeap(Action, answer="graph"):
    """Walk all reachable objects."""


@attrs.frozen
class CheckContents(Action, answer="contents", needs=("contents",)):
    """Walk all reachable objects, and compare the bytes of each string and block."""


def name_of(action: type[Action]) -> str:
    """The name of an action in a trace: `allocate_string` for AllocateString."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action.__name__).lower()


ACTIONS: dict[str, type[Action]] = {}
"""All actions by name."""
NAMES: dict[type[Action], str] = {}
BOUNDS: dict[type[Action], dict[str, Bound]] = {}
"""What the fields of each action may be, by name. A missing field may be anything."""
FIELD_NAMES: dict[type[Action], tuple[str, ...]] = {}
SLOT_FIELDS: dict[type[Action], tuple[str, ...]] = {}
"""The fields of each action that name objects."""


def register(action: type[Action]) -> None:
    """Add an action to the format."""
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


# Action.__subclasses__() would also yield the classes from which attrs makes those with slots.
for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, Action) and _each is not Action:
        register(_each)


def collects(action: Action) -> Collects:
    """The collections that are part of this action."""
    return action.collects if getattr(action, "report", True) else "never"


class _Getters(dict[type[Action], Callable[[Action], object]]):
    """For each kind of action, what returns the values of its fields; made at the first use."""

    def __missing__(self, kind: type[Action]) -> Callable[[Action], object]:
        self[kind] = attrgetter(*(field.name for field in attrs.fields(kind)))
        return self[kind]


_VALUES = _Getters()


def alone(member: Member, thread: int = 0) -> Action:
    """The allocation of that member by itself."""
    if member.kind == "node":
        return AllocateNode(member.number, thread=thread)
    kind = AllocateString if member.kind == "string" else AllocateArray
    return kind(member.length, thread=thread)


def objects_of(allocation: Action) -> int:
    """How many objects an allocation appends to the roots."""
    return len(allocation.members) if isinstance(allocation, AllocateGroup) else 1


def group_bytes(group: AllocateGroup, layout: Layout) -> int:
    """What all members of a group take together, each rounded up to words."""
    return sum(layout.cost(each.kind, each.length, nonmovable=False)[0] for each in group.members)


def requested_bytes(action: Malloc | Calloc | Realloc) -> int:
    """The size of the requested block."""
    return action.size_bytes * (action.count if isinstance(action, Calloc) else 1)
