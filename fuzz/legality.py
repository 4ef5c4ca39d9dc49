"""Whether an action is legal: whether the contract and the mutator's own state allow it.

What is illegal is never sent to a target. In a trace that a person gives it is bad input; in a
reduction it is a candidate not worth trying; and the rules never draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuzz.actions import (
    NAMES,
    SLOT_FIELDS,
    Action,
    AddMemoryPressure,
    AllocateArray,
    Calloc,
    CopyArray,
    DisableSampling,
    EnableSampling,
    LoadPrebuilt,
    Malloc,
    Pin,
    Read,
    ReadNumber,
    ReadWeakref,
    Realloc,
    ResumeSampling,
    SetCallback,
    SetPeriod,
    Unpin,
    Write,
    WriteNumber,
    requested_bytes,
)
from fuzz.contract import Contract, Range
from fuzz.shadow import Shadow, ShadowObject

PRESSURES = Range(1, 2**40)
NUMBERS = Range(-(2**63), 2**63 - 1)
KINDS_WITH_REFERENCES = ("node", "array")
KINDS_OF_ROOT: dict[type[Action], tuple[str, ...]] = {
    Realloc: ("block",),
    ReadNumber: ("node", "string", "array"),
    ReadWeakref: ("weakref",),
    WriteNumber: ("node",),
}


def why_illegal(action: Action, contract: Contract, shadow: Shadow) -> str | None:
    """What is wrong with `action` here, in a sentence; None if it is legal."""
    name = NAMES[type(action)]
    if name not in contract.actions:
        return f"the target does not carry out {name}"
    return (
        _why_thread(action, contract)
        or _why_roots(action, shadow)
        or _why_kind(action, shadow)
        or _why_size(action, contract)
        or _why_number(action)
        or _why_sampling(action, contract)
        or _why_prebuilt(action, shadow)
        or _why_pinning(action, contract, shadow)
    )


def may_be_sent_ahead(contract: Contract) -> bool:
    """Whether what is legal never depends on what the target answers.

    Only pinning does: an object can be pinned while it is young.
    """
    return "pin" not in contract.actions or contract.pins_max == 0


def while_legal(contract: Contract, actions: Iterable[Action]) -> Iterator[Action]:
    """The actions up to the first that is illegal, where that does not depend on answers."""
    shadow = Shadow(contract)
    for action in actions:
        if why_illegal(action, contract, shadow):
            return
        shadow.follow(action, minors=0)
        yield action


def _why_thread(action: Action, contract: Contract) -> str | None:
    if not 0 <= action.thread < contract.threads:
        return f"thread is {action.thread}; there are {contract.threads}, from 0 up"
    return None


def _why_roots(action: Action, shadow: Shadow) -> str | None:
    for field in SLOT_FIELDS[type(action)]:
        root = getattr(action, field)
        if root is not None and not 0 <= root < len(shadow.roots):
            return f"{field} is {root}; there are {len(shadow.roots)} roots, from 0 up"
    return None


def _why_kind(action: Action, shadow: Shadow) -> str | None:
    if isinstance(action, Read | Write):
        obj = shadow.roots[action.root]
        if obj.kind not in KINDS_WITH_REFERENCES:
            return f"root {action.root} is a {obj.kind}, which has no references"
        return _why_range("field", action.field, 1, obj)
    if isinstance(action, CopyArray):
        source, dest = shadow.roots[action.source], shadow.roots[action.dest]
        if source.kind != "array" or dest.kind != "array":
            return "source and dest must be arrays"
        return _why_range("source_start", action.source_start, action.length, source) or _why_range(
            "dest_start", action.dest_start, action.length, dest
        )
    kinds = KINDS_OF_ROOT.get(type(action))
    root = getattr(action, "root", None)
    if kinds and root is not None and shadow.roots[root].kind not in kinds:
        return f"root {root} is a {shadow.roots[root].kind}; it must be a {' or '.join(kinds)}"
    return None


def _why_range(field: str, start: int, length: int, obj: ShadowObject) -> str | None:
    if start < 0 or length < 1 or start + length > len(obj.refs):
        return f"{field} {start} and length {length} do not lie in {len(obj.refs)} references"
    return None


def _why_size(action: Action, contract: Contract) -> str | None:
    if isinstance(action, Malloc | Calloc | Realloc):
        return _why_block(action, contract)
    length = getattr(action, "length", None)
    if length is None or isinstance(action, CopyArray):
        return None
    if isinstance(action, SetCallback):
        most = callback_length_max(contract)
    else:
        most = length_max("array" if isinstance(action, AllocateArray) else "string", contract)
    if not 0 <= length <= most:
        return f"length is {length}; it must be from 0 to {most}"
    return None


def _why_block(action: Malloc | Calloc | Realloc, contract: Contract) -> str | None:
    """A block of nothing has an address of its own; but making one so small frees it."""
    sizes = Range(int(isinstance(action, Realloc)), contract.layout.object_bytes_max)
    if isinstance(action, Calloc) and (action.count < 0 or action.size_bytes < 0):
        return f"count is {action.count}, size_bytes {action.size_bytes}; none may be below 0"
    size_bytes = requested_bytes(action)
    if size_bytes not in sizes:
        return f"the block has {size_bytes} bytes; it must have {sizes}"
    return None


def length_max(kind: str, contract: Contract) -> int:
    """The greatest legal length of a string or an array."""
    return _length_within(contract.layout.object_bytes_max, kind, contract)


def callback_length_max(contract: Contract) -> int:
    """The greatest legal length of a callback's string; below 0 if there is none.

    Whatever the callback allocates must fit in an empty nursery.
    """
    layout = contract.layout
    bytes_max = min(layout.large_object_bytes - 1, layout.object_bytes_max)
    return _length_within(bytes_max, "string", contract)


def _length_within(bytes_max: int, kind: str, contract: Contract) -> int:
    layout = contract.layout.kinds.get(kind)
    return -1 if layout is None else (bytes_max - layout.fixed_bytes) // layout.item_bytes


def _why_number(action: Action) -> str | None:
    number = getattr(action, "number", 0)
    return None if number in NUMBERS else f"number is {number}; it must be {NUMBERS}"


def _why_sampling(action: Action, contract: Contract) -> str | None:
    rule = contract.sampling
    if isinstance(action, AddMemoryPressure) and action.extra_bytes not in PRESSURES:
        return f"extra_bytes is {action.extra_bytes}; it must be {PRESSURES}"
    if isinstance(action, EnableSampling | SetPeriod):
        return rule.why_illegal(action.period_bytes)
    if isinstance(action, DisableSampling):
        way = "report" if action.report else "drop"
        if way not in rule.disabling:
            return f"the target cannot disable sampling with {way}"
    return None


def _why_prebuilt(action: Action, shadow: Shadow) -> str | None:
    count = len(shadow.prebuilt)
    if isinstance(action, LoadPrebuilt) and not 0 <= action.index < count:
        return f"index is {action.index}; there are {count} prebuilt objects, from 0 up"
    return None


def _why_pinning(action: Action, contract: Contract, shadow: Shadow) -> str | None:
    """Pinning excludes callbacks, since what is pinned decides whether theirs fits beside it."""
    if isinstance(action, Pin):
        return _why_not_pinned(shadow.roots[action.root], contract, shadow)
    if isinstance(action, Unpin) and not shadow.roots[action.root].pinned:
        return f"root {action.root} is not pinned"
    if isinstance(action, SetCallback) and action.length is not None and shadow.pinned:
        return f"{len(shadow.pinned)} objects are pinned, and exclude callbacks"
    if isinstance(action, EnableSampling | ResumeSampling):
        return why_not_enabled(contract, shadow)
    return None


def _why_not_pinned(obj: ShadowObject, contract: Contract, shadow: Shadow) -> str | None:
    if not can_be_pinned(obj):
        return "only a string in the nursery that is not pinned can be pinned"
    return why_nothing_pinned(contract, shadow)


def can_be_pinned(obj: ShadowObject) -> bool:
    """Whether it is an object that could be pinned, where any can be."""
    return obj.kind == "string" and obj.is_in_nursery and not obj.pinned


def why_not_enabled(contract: Contract, shadow: Shadow) -> str | None:
    """Why sampling cannot begin now, whatever the period; None if it can."""
    if shadow.pinned and _is_excluded(contract):
        return f"{len(shadow.pinned)} objects are pinned"
    return None


def why_nothing_pinned(contract: Contract, shadow: Shadow) -> str | None:
    """Why no object at all can be pinned now; None if one can."""
    if len(shadow.pinned) >= contract.pins_max:
        return f"{len(shadow.pinned)} objects may be pinned already, and {contract.pins_max} can be"
    if shadow.sampling_bytes and _is_excluded(contract):
        return "sampling is on, and excludes pinning"
    if shadow.callback_bytes:
        return "there is a callback, which excludes pinning"
    return None


def _is_excluded(contract: Contract) -> bool:
    return contract.sampling.pinning == "excluded"
