"""Whether an action is legal: whether the contract and the mutator's own state allow it.

What is illegal is never sent to a target. In a trace that a person gives it is bad input; in a
reduction it is a candidate not worth trying; and the rules never draw it. What each field may be,
the action's class declares; here is what that means under a contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuzz.mutator.shadow import Shadow, ShadowObject
from fuzz.protocol.actions import (
    BOUNDS,
    NAMES,
    SLOT_FIELDS,
    Action,
    BlockBytes,
    Bound,
    DisableSampling,
    ItemOf,
    LengthOf,
    PeriodBytes,
    Pin,
    PrebuiltIndex,
    SetCallback,
    SlotOf,
    Unpin,
)
from fuzz.protocol.contract import Contract, Range

ITEMS_MAX = 2**20
"""The shadow heap follows each item of an array."""


def why_illegal(action: Action, contract: Contract, shadow: Shadow) -> str | None:
    """What is wrong with `action` here, in a sentence; None if it is legal."""
    kind = type(action)
    if NAMES[kind] not in contract.actions:
        return f"the target does not carry out {NAMES[kind]}"
    problem = _why_thread(action, contract) or _why_roots(action, shadow)
    if problem:
        return problem
    for name, bound in BOUNDS[kind].items():
        if getattr(action, name) is not None:
            problem = _why_field(name, bound, action, contract, shadow)
            if problem:
                return problem
    return _why_not_now(action, contract, shadow)


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


def _why_field(
    name: str, bound: Bound, action: Action, contract: Contract, shadow: Shadow
) -> str | None:
    """What is wrong with one field of an action whose slots exist."""
    value = getattr(action, name)
    match bound:
        case SlotOf(kinds):
            why = _why_kind(name, value, kinds, shadow.roots[value].kind) if kinds else None
        case ItemOf(slot, length):
            references = len(shadow.roots[getattr(action, slot)].refs)
            why = _why_item(name, value, getattr(action, length) if length else 1, references)
        case BlockBytes(minimum, times):
            legal = Range(minimum, contract.layout.object_bytes_max)
            why = _why_block(name, value, times, getattr(action, times) if times else 1, legal)
        case PrebuiltIndex():
            why = _why_index(name, value, len(shadow.prebuilt))
        case PeriodBytes():
            why = contract.sampling.why_illegal(value)
        case LengthOf(kind, in_nursery):
            most = callback_length_max(contract) if in_nursery else length_max(kind, contract)
            why = _why_number(name, value, Range(0, most))
        case Range():
            why = _why_number(name, value, bound)
    return why


def _why_kind(name: str, root: int, kinds: tuple[str, ...], kind: str) -> str | None:
    if kind not in kinds:
        article = "an" if kinds[0].startswith("a") else "a"
        return f"{name} {root} is a {kind}; it must be {article} {' or '.join(kinds)}"
    return None


def _why_item(name: str, start: int, length: int, references: int) -> str | None:
    if start < 0 or length < 1 or start + length > references:
        return f"{name} {start} and length {length} do not lie in {references} references"
    return None


def _why_block(
    name: str, size_bytes: int, times: str | None, count: int, legal: Range
) -> str | None:
    if times and (count < 0 or size_bytes < 0):
        return f"{times} is {count}, {name} {size_bytes}; none may be below 0"
    if count * size_bytes not in legal:
        return f"the block has {count * size_bytes} bytes; it must have {legal}"
    return None


def _why_index(name: str, index: int, count: int) -> str | None:
    if not 0 <= index < count:
        return f"{name} is {index}; there are {count} prebuilt objects, from 0 up"
    return None


def _why_number(name: str, number: int, legal: Range) -> str | None:
    return None if number in legal else f"{name} is {number}; it must be {legal}"


def length_max(kind: str, contract: Contract) -> int:
    """The greatest legal length of a string or an array."""
    longest = _length_within(contract.layout.object_bytes_max, kind, contract)
    return min(longest, ITEMS_MAX) if kind == "array" else longest


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


# What depends on what came before.


def _why_not_now(action: Action, contract: Contract, shadow: Shadow) -> str | None:
    """Pinning excludes callbacks, since what is pinned decides whether theirs fits beside it."""
    if action.sampling in ("starts", "resumes"):
        return why_not_enabled(contract, shadow)
    if isinstance(action, DisableSampling):
        way = "report" if action.report else "drop"
        if way not in contract.sampling.disabling:
            return f"the target cannot disable sampling with {way}"
    if isinstance(action, Pin):
        return _why_not_pinned(shadow.roots[action.root], contract, shadow)
    if isinstance(action, Unpin) and not shadow.roots[action.root].pinned:
        return f"root {action.root} is not pinned"
    if isinstance(action, SetCallback) and action.length is not None and shadow.pinned:
        return f"{len(shadow.pinned)} objects are pinned, and exclude callbacks"
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
