"""Ten bugs of `gcmodel`, each of which shows only if three things or more are true at once.

Each docstring says the three. `unseen10_demo.py` shows each bug, and that without any one of the
three nothing fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import attrs

from gcmodel.collector.destructors import Destructors
from gcmodel.collector.finalizing import FinalizingHeap
from gcmodel.collector.grouping import GroupAllocation
from gcmodel.collector.identities import Identities
from gcmodel.memory.errors import HeapExhaustedError
from gcmodel.memory.objects import HAS_SHADOW, PINNED, Object
from gcmodel.sampling.contexts import ContextSampling
from gcmodel.sampling.sampler import Sampler
from gcmodel.sampling.slow_path import Allocation
from gcmodel.sampling.tlab import CountingAllocated

Method = Callable[..., Any]


@attrs.frozen
class Bug:
    """Mistakes, each with the class and the method that it replaces, which it gets first.

    `target` is the name of the target on which it is to be hunted.
    """

    target: str
    mistakes: list[tuple[type, str, Method]] = attrs.Factory(list)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant it in this process. The target must be made, and started, while it is planted."""
        with ExitStack() as stack:
            for owner, method, mistake in self.mistakes:
                wrong = _instead(getattr(owner, method), mistake)
                stack.enter_context(patch.object(owner, method, wrong))
            yield


def _instead(original: Method, mistake: Method) -> Method:
    def wrong(*given: Any, **named: Any) -> Any:
        return mistake(original, *given, **named)

    return wrong


BUGS: dict[str, Bug] = {}


def bug(owner: type, method: str, target: str = "reference") -> Callable[[Method], Method]:
    """Declare a function to be a mistake in that method."""

    def declare(mistake: Method) -> Method:
        BUGS[mistake.__name__] = Bug(target, [(owner, method, mistake)])
        return mistake

    return declare


def also(name: str, owner: type, method: str) -> Callable[[Method], Method]:
    """Declare a function to be another part of the mistake of that name."""

    def declare(mistake: Method) -> Method:
        BUGS[name].mistakes.append((owner, method, mistake))
        return mistake

    return declare


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant the bug of that name in this process."""
    with BUGS[name].planted():
        yield


@bug(Sampler, "after_fork")
def fork_with_pending_samples_forgets_the_due_collection(
    original: Method, sampler: Sampler
) -> None:
    """The process forks; samples are pending; memory pressure has made a collection due."""
    has_samples = bool(sampler.pending)
    original(sampler)
    nursery = sampler._nursery
    if has_samples and nursery.is_collection_due:
        nursery.is_collection_due = False
        sampler.end()


@bug(Sampler, "pause")
def sample_is_taken_for_the_paused_one_of_its_address(original: Method, sampler: Sampler) -> None:
    """A pause dropped a sample; a collection emptied the nursery; the next tenant is sampled."""
    in_nursery = {each for each in sampler.pending if isinstance(each, int)}
    original(sampler)
    sampler.__dict__.setdefault("_ghosts", set()).update(in_nursery)


@also("sample_is_taken_for_the_paused_one_of_its_address", Sampler, "record")
def _record_unless_ghost(
    original: Method, sampler: Sampler, sampled: int | Object, count: int, counted_bytes: int
) -> None:
    ghosts = sampler.__dict__.get("_ghosts", ())
    if count and isinstance(sampled, int) and sampled in ghosts:
        ghosts.remove(sampled)
        return
    original(sampler, sampled, count, counted_bytes)


@bug(Identities, "after_minor_collection")
def number_of_a_dead_identity_is_counted_back(
    original: Method, identities: Identities, pinned: Any, is_marking: bool
) -> None:
    """An object dies whose identity was taken young; a later one lives; one more is taken."""
    gone = [obj for obj in identities._shadows if not obj.flags & PINNED]
    identities._given -= sum(obj.forwarded_to is None for obj in gone)
    original(identities, pinned, is_marking)


@bug(FinalizingHeap, "unregister_finalizer", "reference-finalizers")
def taking_back_a_young_finalizer_takes_the_destructor_too(
    original: Method, heap: FinalizingHeap, root: int
) -> None:
    """A node has a destructor; its finalizer is taken back; no collection came in between."""
    obj = heap._object(root)
    is_young = any(entry.obj is obj for entry in heap.finalizers.young)
    original(heap, root)
    if is_young:
        young = heap.destructors.young
        heap.destructors.young = [entry for entry in young if entry.obj is not obj]


@bug(Destructors, "after_minor_collection", "reference-finalizers")
def destructor_is_called_of_survivor_in_a_reserved_place(
    original: Method, destructors: Destructors
) -> None:
    """An object has a destructor; its identity was taken young; it survives."""
    for entry in reversed(destructors.young):
        if entry.obj.flags & HAS_SHADOW:
            destructors.young.remove(entry)
            destructors.called.append(entry.number)
    original(destructors)


@bug(Allocation, "collect_and_reserve", "reference-exhaustion")
def sample_of_an_object_that_fails_stays_pending(
    original: Method, allocation: Allocation, size_bytes: int
) -> Any:
    """An object passes the sample point; it needs a collection; the heap is exhausted."""
    heap = allocation._heap
    events = heap.sampling._events
    before = events.order.count("s")
    try:
        return original(allocation, size_bytes)
    except HeapExhaustedError:
        samples = events.order.count("s") - before
        heap.sampling.pending.extend([heap.nursery.nursery_free] * samples)
        raise


@bug(GroupAllocation, "_collect", "reference-groups")
def sample_of_a_callback_is_divided_like_the_group(
    original: Method, allocation: GroupAllocation, collections: int
) -> int:
    """A group needs a collection; a callback follows it; the callback's string is sampled."""
    return Allocation._collect(allocation, collections)


@bug(GroupAllocation, "collect_and_reserve", "reference-groups")
def later_member_behind_an_obstacle_is_sampled_as_the_first(
    original: Method, allocation: GroupAllocation, size_bytes: int
) -> Any:
    """A group is allocated; it jumps over a pinned object; a member after the first is sampled."""
    heap, is_group = allocation._heap, bool(allocation._sizes)
    nursery, pending = heap.nursery, heap.sampling.pending
    filling, obstacles = nursery.filling, len(nursery.obstacles)
    address = original(allocation, size_bytes)
    if is_group and nursery.filling == filling and len(nursery.obstacles) < obstacles:
        end = address + size_bytes
        pending[:] = [
            address if isinstance(each, int) and address < each < end else each for each in pending
        ]
    return address


@bug(ContextSampling, "allocated_outside", "reference-dotnet-document")
def object_outside_is_judged_by_the_first_thread_without_a_context(
    original: Method, sampling: ContextSampling, obj: Object, counted_bytes: int
) -> None:
    """An object lies outside; a thread but the first allocates it; the thread has no context."""
    nursery = sampling._threads
    own, context = sampling._distances[nursery.thread], nursery.contexts[nursery.thread]
    if not context.alloc_limit:
        sampling._distances[nursery.thread] = sampling._distances[0]
    original(sampling, obj, counted_bytes)
    sampling._distances[nursery.thread] = own


@bug(CountingAllocated, "retire", "reference-hotspot")
def bytes_outside_are_lost_when_another_thread_collects(
    original: Method, sampling: CountingAllocated, thread: int
) -> None:
    """A thread has bytes outside its TLAB; a collection retires the TLAB; another thread causes it."""
    original(sampling, thread)
    if thread != sampling._eden.thread:
        sampling._allocated[thread].outside_bytes = 0
