"""What a target promises about finalizers and ephemerons.

A finalizer that is called puts its object into the queue of pending ones. `run_finalizers` takes
all objects from that queue. Invariant: unless `objects` are dead, an object with a finalizer, and
all that it refers to, is alive until it leaves the queue.

A destructor is the finalizer that an object has from its allocation. It keeps nothing alive: it is
called when the object is dead, so also after the object's other finalizers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from fuzz.protocol.counting.limits import Count
from fuzz.protocol.counting.way import StatedContract


@attrs.frozen
class Finalizers:
    """When finalizers are called, how often, and in which order."""

    within: Count = 1
    """After this many full collections, the finalizer of an unreachable object is in the queue. The
    order may delay it. 0: no call is promised."""
    called: Literal["in_collection", "later"] = "in_collection"
    """Whether the collection that finds an object dead calls its finalizer, or a later step does
    (Lua). A full collection has no later step."""
    within_collections: Count = 0
    """The same as `within` in collections of any kind, full ones or not: after that many, each of
    which came while the object was unreachable. 0: only full ones bound it."""
    registrations: Literal["any", "one_at_a_time", "one"] = "any"
    """How many finalizers an object may have. `one_at_a_time`: again after the first was called."""
    unregistering: Literal["present", "all"] = "present"
    """Whether `unregister_finalizer` concerns the finalizers that the object has, or later ones
    too, so that none can be registered any more."""
    order: Literal["none", "reverse_registration", "referrer_first"] = "none"
    """The order of objects that die together. `reverse_registration`: of those that a full
    collection finds dead, the last registered first. `referrer_first`: an object waits until no
    other object with a finalizer refers to it, also indirectly and also from the queue."""
    cycles: Literal["any", "first_registered", "never"] = "any"
    """In `referrer_first`, of objects that refer to each other, the first registered one is called,
    or none ever is."""
    weak: Literal["cleared_before", "cleared_after"] = "cleared_after"
    """Whether the weak references to an object are cleared when its finalizer is called, or when it
    is dead."""
    weak_in_dead: Literal["cleared", "kept"] = "cleared"
    """Whether that holds for each weak reference, or not for those that are unreachable themselves
    when the object dies. These lead to it until it is dead, or are cleared (Lua)."""
    again: Literal["new_place", "old_place"] = "new_place"
    """The place in `reverse_registration` of an object that gets another finalizer after its own
    was taken back, if it was reachable all the time: a new one, or the one it had (Lua)."""
    taken_back: Literal["dropped", "kept_once"] = "dropped"
    """Whether an object whose finalizer was taken back dies like any other. Or it is kept once with
    what it refers to, as if one were called: until the full collection after the first that could
    free it (Lua)."""
    objects: Literal["kept", "dead"] = "kept"
    """Whether an object is kept until its finalizer has run, or is dead when that is called. Then
    it cannot be resurrected."""
    ephemerons: Literal["pairs", "attached"] = "pairs"
    """Whether the value dies with the ephemeron or its key, whichever dies first, or is attached to
    the key and dies with it alone."""
    destructors: bool = False
    """Whether nodes can have destructors. `within` holds for them, `order` does not."""

    def problems(self, contract: StatedContract) -> Iterator[str]:
        """What is wrong with a contract that has it, each in a sentence."""
        for name in ("allocate_node", "run_finalizers") if self.destructors else ():
            if name not in contract.actions:
                yield f"destructors in finalizers need {name} in actions"
        if self.within_collections and not 0 < self.within <= self.within_collections:
            yield "within_collections in finalizers needs within, which it must not be below"
        if self.within_collections and "minors" not in contract.observes:
            yield "within_collections in finalizers needs minors in observes"
        if self.weak_in_dead == "kept" and self.weak != "cleared_before":
            yield "weak_in_dead kept in finalizers needs weak cleared_before"
        if self.again == "old_place" and self.order != "reverse_registration":
            yield "again old_place in finalizers needs order reverse_registration"
        if self.taken_back == "kept_once" and self.objects == "dead":
            yield "taken_back kept_once in finalizers needs objects kept"
        if "resurrect" in contract.actions and self.objects == "dead":
            yield "resurrect in actions needs objects that are kept"
