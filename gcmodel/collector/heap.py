"""The collector, composed of its parts, as a mutator sees it.

The mutator names objects by root slot. Every allocation, and every read of a reference, appends to
the list of roots. Invariant: everything reachable from a root or a prebuilt object is alive. An
access to an object that is gone raises DanglingReferenceError. Slots, fields and lengths must be in
range; the heap does not check them.
"""

from itertools import compress

import attrs

from gcmodel.collector.arenas import Arenas, ListedObjects, PagedArenas
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.dangling import dangling_reference
from gcmodel.collector.identities import Identities
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.collector.major import MajorCollection
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.configuration import PREBUILT_ARRAY_LENGTH, SMALL_OBJECT_BYTES, Configuration
from gcmodel.memory.errors import DanglingReferenceError, PinningError
from gcmodel.memory.events import Events
from gcmodel.memory.layout import (
    NODE_BYTES,
    NODE_REFERENCES,
    WEAKREF_BYTES,
    Kind,
    array_bytes,
    rounded,
    string_bytes,
)
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import NO_HEAP_REFERENCES, OUTSIDE, TRACK_YOUNG, Object
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.sampler import Sampler
from gcmodel.sampling.slow_path import Allocation


@attrs.frozen
class Parts:
    """The classes of which a heap is composed. A subclass of one changes a single rule."""

    nursery: type[Nursery] = Nursery
    allocation: type[Allocation] = Allocation
    large_objects: type[LargeObjects] = LargeObjects
    barrier: type[Barrier] = Barrier
    minor: type[MinorCollection] = MinorCollection
    major: type[MajorCollection] = MajorCollection
    weakrefs: type[Weakrefs] = Weakrefs
    identities: type[Identities] = Identities
    sampling: type[Sampler] = Sampling
    pinning: type[Pinning] = Pinning


class Heap:
    """A heap under one configuration, which reports to `events`."""

    def __init__(
        self, configuration: Configuration, parts: Parts = Parts(), events: Events | None = None
    ) -> None:
        self.configuration = configuration
        self.events = Events() if events is None else events
        self.roots: list[Object] = []
        self.allocation = parts.allocation(self)
        self.nursery = parts.nursery(
            configuration.nursery_bytes,
            configuration.moving_nursery,
            self.allocation.collect_and_reserve,
        )
        self.arenas: Arenas = PagedArenas() if configuration.paged_arenas else ListedObjects()
        self.large_objects = parts.large_objects(configuration)
        self.minor = parts.minor(self)
        self.major = parts.major(self)
        self.barrier = parts.barrier(configuration, self.major.is_marking)
        self.weakrefs = parts.weakrefs()
        self.identities = parts.identities(self.place_old)
        self.sampling = parts.sampling(configuration, self.nursery, self.events)
        self.pinning = parts.pinning(configuration, self.nursery)
        self.callback_length: int | None = None
        self.prebuilt = self._make_prebuilt()

    def _make_prebuilt(self) -> list[Object]:
        """Immortal objects without references, nodes first."""
        length = PREBUILT_ARRAY_LENGTH
        node = Kind.NODE, NODE_BYTES, 0, NODE_REFERENCES
        array = Kind.ARRAY, array_bytes(length), length, length
        kinds = [node] * self.configuration.prebuilt_nodes
        kinds += [array] * self.configuration.prebuilt_arrays
        prebuilt = []
        for kind, size_bytes, number, references in kinds:
            prebuilt.append(Object(kind, OUTSIDE, size_bytes, number, [None] * references))
            prebuilt[-1].flags = NO_HEAP_REFERENCES | TRACK_YOUNG
        return prebuilt

    def run(self, thread: int) -> None:
        """Let this thread carry out what follows. Only some heaps treat threads apart."""
        self.nursery.thread = thread

    # Allocation. Each method appends a root. It returns the bytes that the sampler counts, and the
    # offset in the nursery, or None if the object lies outside.

    def allocate_node(self, number: int, nonmovable: bool = False) -> tuple[int, int | None]:
        """A node with an integer and two null references."""
        return self._allocate(Kind.NODE, NODE_BYTES, number, NODE_REFERENCES, nonmovable)

    def allocate_string(self, length: int, nonmovable: bool = False) -> tuple[int, int | None]:
        """A string of `length` characters."""
        return self._allocate(Kind.STRING, string_bytes(length), length, 0, nonmovable)

    def allocate_old_string(self, length: int) -> tuple[int, int | None]:
        """A string of `length` characters that is old from the start."""
        raw_bytes = string_bytes(length)
        self.roots.append(self.allocation.old(Kind.STRING, raw_bytes, length))
        return raw_bytes, None

    def allocate_array(self, length: int, nonmovable: bool = False) -> tuple[int, int | None]:
        """An array of `length` null references."""
        return self._allocate(Kind.ARRAY, array_bytes(length), length, length, nonmovable)

    def allocate_weakref(self, root: int) -> tuple[int, int | None]:
        """A weak reference to the object in slot `root`."""
        placed = self._allocate(Kind.WEAKREF, WEAKREF_BYTES, 0, 0, False)
        weakref = self.roots[-1]
        weakref.target = self._object(root)
        self.weakrefs.young.append(weakref)
        return placed

    def _allocate(
        self, kind: Kind, raw_bytes: int, number: int, length: int, nonmovable: bool
    ) -> tuple[int, int | None]:
        if nonmovable or raw_bytes >= self.configuration.large_object_bytes:
            self.roots.append(self.allocation.outside(kind, raw_bytes, number, length))
            return raw_bytes, None
        size_bytes = rounded(raw_bytes)
        obj, address = self._place_young(kind, size_bytes, number, length)
        self.roots.append(obj)
        return size_bytes, address - self.nursery.nursery_start

    def _place_young(
        self, kind: Kind, size_bytes: int, number: int, length: int
    ) -> tuple[Object, int]:
        address = self.nursery.allocate(size_bytes)
        return self._put(address, kind, size_bytes, number, length), address

    def _put(self, address: int, kind: Kind, size_bytes: int, number: int, length: int) -> Object:
        """A new object at an address of the nursery that was reserved for it."""
        obj = Object(kind, self.nursery.filling, size_bytes, number, [None] * length)
        self.nursery.memory[address] = obj
        return obj

    def set_callback(self, length: int | None) -> None:
        """Set the callback that runs after each collection caused by an allocation.

        It allocates a string of `length` characters, which fits in the nursery, and drops it. None
        removes the callback. (PyPy runs finalizers there.)
        """
        self.callback_length = length

    def progress_and_call_back(self, extra_bytes: int) -> None:
        """Collect because of an allocation, then run the callback; see SlowPathHeap."""
        self.major.progress(extra_bytes)
        length = self.callback_length
        if length is not None:
            self._place_young(Kind.STRING, rounded(string_bytes(length)), length, 0)

    def load_prebuilt(self, index: int) -> None:
        """Append the prebuilt object `index` to the roots."""
        self.roots.append(self.prebuilt[index])

    def free(self, root: int) -> None:
        """Delete the slot `root`; the slots above it move down."""
        del self.roots[root]

    # Access.

    def _object(self, root: int) -> Object:
        return self._alive(self.roots[root])

    def _alive(self, obj: Object) -> Object:
        if obj.place not in (OUTSIDE, self.nursery.filling):
            raise self._dangling(obj)
        return obj

    def _dangling(self, gone: Object) -> DanglingReferenceError:
        return dangling_reference(self, gone, "a reference leads to")

    def read(self, root: int, field: int) -> Object | None:
        """Read a field of a node (0 or 1) or an item of an array; append it unless it is null."""
        value = self._object(root).refs[field]
        if value is not None:
            self.roots.append(self._alive(value))
        return value

    def read_number(self, root: int) -> int:
        """A node's integer, or the length of a string or array."""
        return self._object(root).number

    def write(self, root: int, field: int, value_root: int | None) -> None:
        """Store the object in slot `value_root`, or null, in a field or item."""
        obj = self._object(root)
        value = None if value_root is None else self._object(value_root)
        self.barrier.before_write(obj, field)
        obj.refs[field] = value

    def write_number(self, root: int, number: int) -> None:
        """Store an integer in a node."""
        self._object(root).number = number

    def write_contents(self, root: int, contents: bytes) -> None:
        """Write all characters of a string."""
        self._object(root).contents = contents

    def copy_array(
        self, source_root: int, dest_root: int, source_start: int, dest_start: int, length: int
    ) -> None:
        """Copy items between two arrays, or within one, where the ranges may overlap."""
        source, dest = self._object(source_root), self._object(dest_root)
        for parent in self.pinning.parents:
            if parent.flags & TRACK_YOUNG:
                # The barrier relies on the source's flags, which ignore pinned objects.
                self.barrier.remember(parent)
        self.barrier.before_copy(source, dest, source_start, dest_start, length)
        items = source.refs[source_start : source_start + length]
        dest.refs[dest_start : dest_start + length] = items

    def fill_array(self, root: int, value_root: int | None) -> None:
        """Store the object in slot `value_root`, or null, in each item."""
        array = self._object(root)
        value = None if value_root is None else self._object(value_root)
        self.barrier.before_fill(array)
        array.refs[:] = [value] * len(array.refs)

    def move_array(self, root: int, source_start: int, dest_start: int, length: int) -> None:
        """Move items within an array, where the ranges may overlap."""
        array = self._object(root)
        self.barrier.before_move(array)
        items = array.refs[source_start : source_start + length]
        array.refs[dest_start : dest_start + length] = items

    def is_weakref_alive(self, root: int) -> bool:
        """Whether the weak reference in slot `root` still refers to its object."""
        target = self._object(root).target
        return target is not None and self._alive(target) is target

    def read_weakref(self, root: int, keep: bool = False) -> bool:
        """Whether that reference refers to its object, which becomes a root if it is kept.

        A reference whose object is dead becomes a root once more.
        """
        is_alive = self.is_weakref_alive(root)
        if keep:
            weakref = self.roots[root]
            self.roots.append(self.weakrefs.followed(weakref) if is_alive else weakref)
        return is_alive

    def pin(self, root: int) -> None:
        """Pin the object in slot `root`; see Pinning.pin."""
        obj = self._object(root)
        if self.sampling.period_bytes and not self.configuration.pin_while_sampling:
            raise PinningError("sampling is on, and excludes pinning")
        self.pinning.pin(obj)

    def unpin(self, root: int) -> None:
        """Unpin the object in slot `root`; see Pinning.unpin."""
        self.pinning.unpin(self._object(root))

    def identity(self, root: int) -> int:
        """A number that no other object ever has, and that the object always keeps."""
        return self.identities.identity(self._object(root))

    # Collections. PyPy names them gc.collect(-1), gc.collect(0), gc.collect_step(), gc.collect(2).

    def collect_minor(self) -> None:
        """Run a minor collection only."""
        self.minor.collect()

    def collect_progress(self) -> None:
        """Collect as for a full nursery: a minor collection, and major steps if they are due."""
        self.major.progress(0)

    def collect_step(self) -> None:
        """Run a minor collection and exactly one step of the major one."""
        self.minor.collect()
        self.major.step(0)

    def collect_full(self) -> None:
        """Free everything that is unreachable."""
        self.major.collect()

    def add_memory_pressure(self, extra_bytes: int) -> None:
        """Count bytes outside the heap that depend on it, so that it collects sooner."""
        if self.major.pressure(extra_bytes):
            self.nursery.make_collection_due()

    # Sampling.

    def enable_sampling(self, period_bytes: int) -> None:
        """Sample every `period_bytes` from now on; see Sampler.enable."""
        self._check_unpinned()
        self.sampling.enable(period_bytes)

    def pause_sampling(self) -> None:
        """Stop sampling, drop the pending samples, and keep the period for resuming."""
        self.sampling.pause()

    def resume_sampling(self) -> None:
        """Enable sampling with the paused period; see Sampler.resume."""
        self._check_unpinned()
        self.sampling.resume()

    def _check_unpinned(self) -> None:
        if self.pinning.count and not self.configuration.pin_while_sampling:
            raise PinningError(
                f"objects are pinned ({self.pinning.count}), which excludes sampling"
            )

    def after_fork(self) -> None:
        """Continue as a forked child process, which is not sampled."""
        self.sampling.after_fork()

    def disable_sampling(self, report: bool) -> None:
        """Stop sampling. A minor collection reports the pending samples, or they are dropped."""
        if report:
            self.minor.collect()
        self.sampling.disable()

    # For the parts, and for inspecting the heap from outside.

    def is_major_due(self, extra_bytes: int) -> bool:
        """Whether `extra_bytes` more would start a major collection."""
        return self.major.threshold_reached(extra_bytes)

    def place_outside(self, obj: Object, is_young: bool) -> None:
        """Place a new object outside the nursery."""
        add = self.large_objects.add_young if is_young else self.large_objects.add_old
        add(obj)

    def place_old(self, obj: Object) -> None:
        """Place an object that leaves the nursery, by its size."""
        if obj.size_bytes <= SMALL_OBJECT_BYTES:
            self.arenas.add(obj)
        else:
            self.large_objects.add_old(obj)

    def memory_used_bytes(self) -> int:
        """The bytes of all objects outside the nursery, including dead ones not yet freed."""
        return self.arenas.used_bytes + self.large_objects.used_bytes

    def statistics(self) -> tuple[int, int, int]:
        """Memory used, bytes of all arenas, and the major collection's state. (Section 3.6.)"""
        return self.memory_used_bytes(), self.arenas.arena_bytes, self.major.state

    def walk(self) -> list[list[int]]:
        """Check and return the graph of all reachable objects.

        It has one row for each object, in the order of discovery: roots, prebuilt objects, then
        breadth first. A row has the object's kind, its number, and for each reference that is not
        null the field and the row of the object found there.

        Raises DanglingReferenceError for the first object that is gone. The error has the graph.
        """
        return self._discover()[1]

    def contents(self) -> list[bytes]:
        """Return the characters of each reachable string, in the order of `walk`.

        Raises DanglingReferenceError for the first object that is gone.
        """
        return [obj.contents for obj in self._discover()[0] if obj.kind is Kind.STRING]

    def _discover(self) -> tuple[list[Object], list[list[int]]]:
        """All reachable objects, and their graph."""
        found = list(dict.fromkeys(self.roots + self.prebuilt))
        numbers = dict(zip(found, range(len(found)), strict=True))
        places = OUTSIDE, self.nursery.filling
        graph: list[list[int]] = []
        gone: list[Object] = []
        for obj in found:
            if obj.place not in places:
                gone.append(obj)
                graph.append([])
                continue
            row: list[int] = [obj.kind, obj.number]
            graph.append(row)
            refs = obj.refs
            if any(refs):  # Most references of most objects are null.
                for field, ref in compress(enumerate(refs), refs):
                    assert ref is not None
                    if ref not in numbers:
                        numbers[ref] = len(found)
                        found.append(ref)
                    row += field, numbers[ref]
        if gone:
            error = self._dangling(gone[0])
            error.graph = graph
            raise error
        return found, graph
