"""Whether an action is legal under a contract and in the mutator's own state.

An illegal action is never sent to a target. In a trace that a user gives it is bad input, in a
reduction it is a candidate not worth trying, and the rules never draw it. The class of an action
declares what each field may be; this module has what that means under a contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.occupancy import may_be_exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.protocol import actions
from fuzz.protocol.actions import BOUNDS, NAMES, SLOT_FIELDS, Action, SlotOf
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.finalizers import Finalizers

ITEMS_MAX = 2**20
"""The longest array: the shadow heap follows each of its items."""
Why = str | None
"""What is wrong, in a sentence; None if nothing is."""
Check = Callable[[Action, Contract, Shadow], Why]


def why_illegal(action: Action, contract: Contract, shadow: Shadow) -> Why:
    """What is wrong with `action` here, in a sentence; None if it is legal."""
    kind = type(action)
    if NAMES[kind] not in contract.actions:
        return f"the target does not carry out {NAMES[kind]}"
    if action.thread:
        if not 0 < action.thread < contract.threads:
            return f"thread is {action.thread}; there are {contract.threads}, from 0 up"
        if action.thread in shadow.ended_threads and kind is not actions.BeginThread:
            return f"thread {action.thread} has ended"
    for check in _CHECKS[kind]:
        problem = check(action, contract, shadow)
        if problem:
            return problem
    return why_too_often(action, contract, shadow)


def may_be_sent_ahead(contract: Contract) -> bool:
    """Whether the legality of actions never depends on the answers of the target.

    An object can be pinned while it is young, and resurrected after its finalizer ran. An action
    that is exhausted appends no slot. A weak reference that is kept is one of its object, if that
    is alive.
    """
    if contract.exhaustion is not None or contract.weak_reads == "kept":
        return False
    pins = "pin" in contract.actions and contract.pins_max > 0
    return not pins and "run_finalizers" not in contract.actions


def while_legal(contract: Contract, actions: Iterable[Action]) -> Iterator[Action]:
    """The actions up to the first illegal one, under a contract that may be sent ahead."""
    shadow = Shadow(contract)
    for action in actions:
        if why_illegal(action, contract, shadow):
            return
        shadow.follow(action, minors=0)
        yield action


# What each field may be. Null is legal in a field that may be null.


def _a(*kinds: str) -> str:
    """The kinds with an article."""
    return f"{'an' if kinds[0].startswith('a') else 'a'} {' or '.join(kinds)}"


def _why_slot(name: str, bound: SlotOf, action: Action, contract: Contract, shadow: Shadow) -> Why:
    root, roots, kinds = getattr(action, name), shadow.roots, bound.kinds
    if root is None:
        return None
    if not 0 <= root < len(roots):
        return f"{name} is {root}; there are {len(roots)} roots, from 0 up"
    if kinds and roots[root].kind not in kinds:
        return f"{name} {root} is {_a(roots[root].kind)}; it must be {_a(*kinds)}"
    return None


def _why_item(
    name: str, bound: actions.ItemOf, action: Action, contract: Contract, shadow: Shadow
) -> Why:
    start, length = getattr(action, name), getattr(action, bound.length) if bound.length else 1
    references = len(shadow.roots[getattr(action, bound.slot)].refs)
    if start < 0 or length < 1 or start + length > references:
        return f"{name} {start} and length {length} do not lie in {references} references"
    return None


def _why_block(
    name: str, bound: actions.BlockBytes, action: Action, contract: Contract, shadow: Shadow
) -> Why:
    times, size_bytes = bound.times, getattr(action, name)
    count = getattr(action, times) if times else 1
    if times and (count < 0 or size_bytes < 0):
        return f"{times} is {count}, {name} {size_bytes}; none may be below 0"
    legal = Range(bound.minimum, contract.layout.object_bytes_max)
    if count * size_bytes not in legal:
        return f"the block has {count * size_bytes} bytes; it must have {legal}"
    return None


def _why_prebuilt(
    name: str, bound: actions.PrebuiltIndex, action: Action, contract: Contract, shadow: Shadow
) -> Why:
    index, count = getattr(action, name), len(shadow.prebuilt)
    if 0 <= index < count:
        return None
    return f"{name} is {index}; there are {count} prebuilt objects, from 0 up"


def _why_period(
    name: str, bound: actions.PeriodBytes, action: Action, contract: Contract, shadow: Shadow
) -> Why:
    return contract.sampling.why_illegal(getattr(action, name))


def _why_length(
    name: str, bound: actions.LengthOf, action: Action, contract: Contract, shadow: Shadow
) -> Why:
    is_short = bound.in_nursery
    longest = callback_length_max(contract) if is_short else length_max(bound.kind, contract)
    return _why_number(name, Range(0, longest), action, contract, shadow)


def _why_number(name: str, bound: Range, action: Action, contract: Contract, shadow: Shadow) -> Why:
    number = getattr(action, name)
    return None if number is None or number in bound else f"{name} is {number}; it must be {bound}"


_WHY: dict[type[actions.Bound], Callable[..., Why]] = {
    SlotOf: _why_slot,
    actions.ItemOf: _why_item,
    actions.BlockBytes: _why_block,
    actions.PrebuiltIndex: _why_prebuilt,
    actions.PeriodBytes: _why_period,
    actions.LengthOf: _why_length,
    Range: _why_number,
}


def length_max(kind: str, contract: Contract) -> int:
    """The greatest legal length of a string or an array."""
    longest = _length_within(contract.layout.object_bytes_max, kind, contract)
    return min(longest, ITEMS_MAX) if kind == "array" else longest


def callback_length_max(contract: Contract) -> int:
    """The greatest legal length of a callback's string; below 0 if there is none.

    The string must fit in an empty nursery.
    """
    layout = contract.layout
    bytes_max = min(layout.large_object_bytes - 1, layout.object_bytes_max)
    return _length_within(bytes_max, "string", contract)


def _length_within(bytes_max: int, kind: str, contract: Contract) -> int:
    layout = contract.layout.kinds.get(kind)
    return -1 if layout is None else (bytes_max - layout.fixed_bytes) // layout.item_bytes


# What depends on earlier actions.


def _why_not_disabled(action: actions.DisableSampling, contract: Contract, shadow: Shadow) -> Why:
    disabling = "report" if action.report else "drop"
    if disabling in contract.sampling.disabling:
        return None
    return f"the target cannot disable sampling with {disabling}"


def _why_not_pinned(action: actions.Pin, contract: Contract, shadow: Shadow) -> Why:
    if not can_be_pinned(shadow.roots[action.root]):
        return "only a string in the nursery that is not pinned can be pinned"
    return why_nothing_pinned(contract, shadow)


def _why_not_unpinned(action: actions.Unpin, contract: Contract, shadow: Shadow) -> Why:
    return None if shadow.roots[action.root].pinned else f"root {action.root} is not pinned"


def _why_no_callback(action: actions.SetCallback, contract: Contract, shadow: Shadow) -> Why:
    # A callback's string may not fit beside a pinned object.
    if action.length is not None and shadow.pinned:
        return f"objects are pinned ({len(shadow.pinned)}), and exclude callbacks"
    return None


def _why_not_ended(action: actions.EndThread, contract: Contract, shadow: Shadow) -> Why:
    return None if action.thread else "the first thread does not end"


def _why_not_started(action: actions.BeginThread, contract: Contract, shadow: Shadow) -> Why:
    has_ended = action.thread in shadow.ended_threads
    return None if has_ended else f"thread {action.thread} has not ended"


def _why_not_registered(
    action: actions.RegisterFinalizer, contract: Contract, shadow: Shadow
) -> Why:
    why = _why_not_new(action.number, shadow)
    return why or why_no_finalizer(shadow.roots[action.root], contract, shadow)


def _why_not_new(number: int, shadow: Shadow) -> Why:
    table = shadow.finalizers
    if number in table.registered or number in table.destructors:
        return f"there was a finalizer with the number {number}"
    return None


def _why_not_destructible(action: actions.AllocateNode, contract: Contract, shadow: Shadow) -> Why:
    if action.destructor is None:
        return None
    if not can_have_destructor(contract, nonmovable=action.nonmovable):
        return "the node cannot have a destructor"
    return _why_not_new(action.destructor, shadow)


def can_have_destructor(contract: Contract, *, nonmovable: bool) -> bool:
    """Whether a new node can have one; one outside the nursery cannot."""
    has_any = contract.finalizers is not None and contract.finalizers.destructors
    return has_any and not contract.layout.cost("node", 0, nonmovable)[1]


def why_no_finalizer(obj: ShadowObject, contract: Contract, shadow: Shadow) -> Why:
    """Why an object can get no finalizer now; None if it can."""
    if obj in shadow.prebuilt:
        return "a prebuilt object cannot have a finalizer"
    promised = contract.finalizers or Finalizers()
    if promised.unregistering == "all" and obj in shadow.finalizers.unregistered:
        return "the finalizers of the object were taken back"
    before = {
        "any": (),
        "one_at_a_time": shadow.finalizers.waiting.values(),
        "one": shadow.finalizers.registered.values(),
    }[promised.registrations]
    return "the object has a finalizer, or had one" if obj in before else None


def _why_not_resurrected(action: actions.Resurrect, contract: Contract, shadow: Shadow) -> Why:
    if action.number in shadow.finalizers.kept:
        return None
    return f"no object is kept whose finalizer has the number {action.number}"


def _why_not_kept(action: actions.ReadWeakref, contract: Contract, shadow: Shadow) -> Why:
    if action.keep and contract.weak_reads != "kept":
        return "the target does not keep what it reads by weak references"
    return None


def _why_no_member(place: int, member: actions.Member, kinds: Sequence[str]) -> Why:
    if member.kind not in kinds:
        return f"member {place} is {_a(member.kind)}; it must be {_a(*kinds)}"
    unused = "length" if member.kind == "node" else "number"
    if getattr(member, unused):
        return f"member {place} is {_a(member.kind)}, and has no {unused}"
    if member.length < 0:
        return f"the length of member {place} is {member.length}; it must be at least 0"
    if member.number not in actions.NUMBERS:
        return f"the number of member {place} is {member.number}; it must be {actions.NUMBERS}"
    return None


def _why_not_grouped(action: actions.AllocateGroup, contract: Contract, shadow: Shadow) -> Why:
    groups, members = contract.groups, action.members
    if groups is None:
        return "the target allocates no groups"
    if len(members) not in (legal := Range(1, groups.members_max)):
        return f"the group has {len(members)} members; it must have {legal}"
    for place, member in enumerate(members):
        if why := _why_no_member(place, member, groups.kinds):
            return why
    size_bytes = actions.group_bytes(action, contract.layout)
    if size_bytes > groups.bytes_max:
        return f"the group takes {size_bytes} bytes; it must be at most {groups.bytes_max}"
    return None


_NOT_NOW: dict[type[Action], Callable[..., Why]] = {
    actions.DisableSampling: _why_not_disabled,
    actions.Pin: _why_not_pinned,
    actions.Unpin: _why_not_unpinned,
    actions.EndThread: _why_not_ended,
    actions.BeginThread: _why_not_started,
    actions.SetCallback: _why_no_callback,
    actions.AllocateNode: _why_not_destructible,
    actions.AllocateGroup: _why_not_grouped,
    actions.RegisterFinalizer: _why_not_registered,
    actions.Resurrect: _why_not_resurrected,
    actions.ReadWeakref: _why_not_kept,
}


class _Checks(dict[type[Action], tuple[Check, ...]]):
    """The checks of each kind of action, in order; computed when the first one comes."""

    def __missing__(self, kind: type[Action]) -> tuple[Check, ...]:
        # What the other fields may be depends on the objects in the slots.
        slots, bounds = SLOT_FIELDS[kind], BOUNDS[kind]
        fields = [*slots, *(name for name in bounds if name not in slots)]
        checks: list[Check] = [
            partial(_WHY[type(bounds[name])], name, bounds[name]) for name in fields
        ]
        if kind.sampling in ("starts", "resumes"):
            checks.append(lambda _, contract, shadow: why_not_enabled(contract, shadow))
        if kind in _NOT_NOW:
            checks.append(_NOT_NOW[kind])
        self[kind] = tuple(checks)
        return self[kind]


_CHECKS = _Checks()


def can_be_pinned(obj: ShadowObject) -> bool:
    """Whether an object could be pinned if pinning is legal."""
    return obj.kind == "string" and obj.is_in_nursery and not obj.pinned


def why_not_enabled(contract: Contract, shadow: Shadow) -> Why:
    """Why sampling cannot start now, with any period; None if it can."""
    if shadow.pinned and _is_excluded(contract):
        return f"objects are pinned ({len(shadow.pinned)})"
    return None


def why_nothing_pinned(contract: Contract, shadow: Shadow) -> Why:
    """Why no object can be pinned now; None if one can."""
    if len(shadow.pinned) >= contract.pins_max:
        return f"objects may be pinned already ({len(shadow.pinned)} of {contract.pins_max})"
    if shadow.sampling_bytes is not None and _is_excluded(contract):
        return "sampling is on, and excludes pinning"
    if shadow.callback_bytes:
        return "there is a callback, which excludes pinning"
    return None


def _is_excluded(contract: Contract) -> bool:
    return contract.sampling.pinning == "excluded"


def why_too_often(action: Action, contract: Contract, shadow: Shadow) -> Why:
    """Why an action may be exhausted once more than the target survives; None if it cannot be."""
    exhaustion, occupancy = contract.exhaustion, shadow.occupancy
    if exhaustion is None or occupancy is None or not occupancy.is_used_up:
        return None
    if not may_be_exhausted(action, exhaustion):
        return None
    new = [shadow.object_of(action)] if action.allocates else []
    bytes_max = occupancy.most_bytes() + occupancy.bytes_of(new)
    if bytes_max <= exhaustion.heap_bytes_max:
        return None
    return f"with up to {bytes_max} bytes it may be exhausted, which would end the target"
