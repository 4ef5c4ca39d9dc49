"""The machine's samplers and heaps, where the driver reads and sets them.

It does so only at a trace's start; after that it reads only the number of collections. (Sources:
src/hotspot/share/runtime/threadHeapSampler.cpp, gc/shared/threadLocalAllocBuffer.hpp.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ctypes import c_uint32, string_at
from pathlib import Path

from typing_extensions import override

from fuzz.problems import BadInputError
from fuzz.protocol.layout import rounded_up
from fuzz.targets.hotspot.machines import EPSILON, G1, PARALLEL, SERIAL, SHENANDOAH, ZGC
from fuzz.targets.hotspot.sample_counter import SampleCounter
from fuzz.targets.hotspot.structs import WORD_BYTES, Structs, referred, set_word, word

MULTIPLIER, INCREMENT, BITS = 0x5DEECE66D, 0xB, 48
"""Of the generator. It is found by the state that follows a known seed."""
OLD_REFILLS_OFFSET = 72
"""The offset of a buffer's count of refills in versions that charge bytes ahead."""
CHARGED_OFFSET, TRUE_END_OFFSET = 64, 32
"""The offsets of the bytes charged ahead, and of a buffer's end without regard to sampling. The
table has neither."""
NURSERY_BYTES = 2**20
MACHINE_BYTES = 4096
"""An upper bound of the VM's own objects in the survivor space, such as strings of its classes."""
PARALLEL_BUFFER_BYTES = 4096 * WORD_BYTES
"""The default of -XX:YoungPLABSize."""


class Samplers:
    """Each thread's sampler, and the generator that they share."""

    def __init__(self, structs: Structs, library: str) -> None:
        self._tlab = structs.place("_tlab", "Thread")
        self._sampler = structs.place("_allocated_bytes", "Thread") + WORD_BYTES
        self._desired = self._tlab + structs.place("_desired_size", "ThreadLocalAllocBuffer")
        refills = structs.place("_number_of_refills", "ThreadLocalAllocBuffer")
        self.charges_ahead = refills == OLD_REFILLS_OFFSET
        """Whether the rule is that of versions 11 to 24, as far as no fix is ported back."""
        self._library = library
        self._generator: int | None = None

    def find_generator(self, attach: Callable[[], int]) -> None:
        """Find the generator by starting a thread with `attach`: its address gives the seed.

        Raises BadInputError.
        """
        if self._generator is not None:
            return
        wanted = self._state_after(attach()).to_bytes(WORD_BYTES, "little")
        found = list(_places_of(wanted, self._library))
        # A copy, such as `wanted` itself, does not change when one more thread starts.
        if len(found) > 1:
            state = self._state_after(attach())
            found = [place for place in found if word(place) == state]
        if len(found) != 1:
            raise BadInputError(
                f"{self._library}: the generator of samples is at {len(found)} places, not at one"
            )
        [self._generator] = found

    def _state_after(self, birth: int) -> int:
        """The generator's state after the start of the thread at this address."""
        return (self.seed_of(birth) * MULTIPLIER + INCREMENT) % (1 << BITS)

    def buffer_bytes(self, thread: int) -> int:
        """The desired size of its buffers, which is constant because they are not resized."""
        return WORD_BYTES * word(thread + self._desired)

    def allocated_bytes(self, thread: int) -> int:
        """The bytes that it has allocated, without those in its present buffer."""
        return word(thread + self._sampler - WORD_BYTES)

    def seed_of(self, birth: int) -> int:
        """The seed that the generator gets from the start of the thread at this address."""
        return (birth + self._sampler) % 2**32 or 1

    def begin(self, seed: int) -> None:
        set_word(self.generator, seed)

    @property
    def generator(self) -> int:
        assert self._generator is not None
        return self._generator

    def begin_thread(self, thread: int, first_bytes: int) -> None:
        """Reset the thread's counts, and set its bytes until the next sample."""
        sampler = thread + self._sampler
        set_word(sampler, first_bytes)
        if self.charges_ahead:
            set_word(thread + self._tlab + CHARGED_OFFSET, 0)
        else:
            for place in (1, 2, 3):  # The count's start; the bytes in buffers, and outside.
                set_word(sampler + WORD_BYTES * place, 0)


def _places_of(wanted: bytes, library: str) -> Iterator[int]:
    """The addresses of these bytes in the library's writable data."""
    is_of_library = False
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        area, rights, *_, path = (*line.split(maxsplit=5), "")[:6]
        # Data that starts as zeros comes next, without a name.
        is_of_library = path == library or (is_of_library and not path)
        if not is_of_library or not rights.startswith("rw"):
            continue
        begin, end = (int(each, 16) for each in area.split("-"))
        data = string_at(begin, end - begin)
        at = data.find(wanted)
        while at >= 0:
            yield begin + at
            at = data.find(wanted, at + 1)


class JavaHeap:
    """Any collector's heap."""

    nursery_bytes = NURSERY_BYTES
    """About this much is allocated from collection to collection."""
    is_empty = True
    """Whether the space of buffers is empty, as far as that is known."""
    is_used_up = False
    """Whether too little may be left for one more trace."""
    moves_at_any_time = False
    """Whether an object may have two keys."""
    survivor_bytes: int | None = None
    """See Contract. None if the collector has no young collections."""

    def __init__(self, structs: Structs) -> None:
        self._heap = word(structs.place("_collectedHeap", "Universe"))
        self.start = word(self._heap + structs.place("_reserved", "CollectedHeap"))
        self._collections = c_uint32.from_address(
            self._heap + structs.place("_total_collections", "CollectedHeap")
        )
        self._reserve = structs.place("_reserve_for_allocation_prefetch", "ThreadLocalAllocBuffer")
        self._tlab = structs.place("_tlab", "Thread")

    def key_of(self, reference: int) -> int:
        """The same for all references to one object, and only these, until the next collection."""
        return referred(reference)

    def address_of(self, reference: int) -> int:
        return self.key_of(reference)

    @property
    def collections(self) -> int:
        return self._collections.value

    def reserve_bytes(self, header_bytes: int) -> int:
        """The bytes that a buffer keeps free behind its end: room for an object without fields.

        None is needed if such an object is not larger than the alignment. (lab_alignment_reserve.)
        C2's prefetching needs more. (ThreadLocalAllocBuffer::end_reserve.)
        """
        words = c_uint32.from_address(self._reserve).value
        least_bytes = rounded_up(header_bytes, WORD_BYTES)
        return max(least_bytes if least_bytes > WORD_BYTES else 0, WORD_BYTES * words)

    def buffer_start(self, thread: int) -> int:
        """The address of a thread's buffer; 0 if it has none."""
        return word(thread + self._tlab)

    def buffer_end(self, thread: int) -> int:
        """The buffer's end without regard to sampling."""
        return word(thread + self._tlab + TRUE_END_OFFSET)

    def end_buffer(self, thread: int) -> None:
        """Take a thread's buffer away. The heap then has a gap, which this collector must allow."""
        for offset in (0, 8, 16, 24, TRUE_END_OFFSET):
            set_word(thread + self._tlab + offset, 0)


class SerialEden(JavaHeap):
    """The serial collector's heap, which allocates in eden only, from its start on.

    A survivor is copied to the survivor space, or becomes old if it does not fit there. (Source:
    gc/serial/defNewGeneration.cpp, copy_to_survivor_space.)
    """

    def __init__(self, structs: Structs) -> None:
        super().__init__(structs)
        young = structs.place("_young_gen", "SerialHeap", "GenCollectedHeap")
        self._eden, survivors = (
            word(word(self._heap + young) + structs.place(space, "DefNewGeneration"))
            for space in ("_eden_space", "_to_space")
        )
        self._bottom, self._end, self._top = (
            structs.place(field, "ContiguousSpace", "Space")
            for field in ("_bottom", "_end", "_top")
        )
        self.start = word(self._eden + self._bottom)
        self.nursery_bytes = word(self._eden + self._end) - self.start
        capacity_bytes = word(survivors + self._end) - word(survivors + self._bottom)
        self.survivor_bytes = capacity_bytes - MACHINE_BYTES

    @property
    def is_empty(self) -> bool:  # type: ignore[override]
        return word(self._eden + self._top) == self.start


class ParallelHeap(JavaHeap):
    """Parallel's heap, whose threads copy survivors into buffers in the survivor space.

    Only an object of at most half a buffer begins a new one, so every buffer is half full, except
    the last one of each of the two threads. (Source: gc/parallel/psPromotionManager.inline.hpp,
    copy_unmarked_to_survivor_space.)
    """

    def __init__(self, structs: Structs) -> None:
        super().__init__(structs)
        young = word(structs.place("_young_gen", "ParallelScavengeHeap"))
        survivors = word(young + structs.place("_to_space", "PSYoungGen"))
        bottom, end = (structs.place(field, "MutableSpace") for field in ("_bottom", "_end"))
        capacity_bytes = word(survivors + end) - word(survivors + bottom)
        self.survivor_bytes = capacity_bytes // 2 - 2 * PARALLEL_BUFFER_BYTES


class G1Heap(JavaHeap):
    """G1's heap, which has at least one region for survivors.

    At most half of a region is wasted: about a tenth by buffers, and less than an object's size by
    the object that does not fit at the end. (Source: gc/g1/g1Policy.cpp, update_survivors_policy;
    g1Allocator.cpp, allocate_direct_or_new_plab.)
    """

    def __init__(self, structs: Structs) -> None:
        super().__init__(structs)
        self.survivor_bytes = word(structs.place("GrainBytes", "G1HeapRegion", "HeapRegion")) // 2


class ZHeap(JavaHeap):
    """ZGC's heap, whose references have the collection's phase beside the address."""

    moves_at_any_time = True

    def __init__(self, structs: Structs) -> None:
        super().__init__(structs)
        own = "ZGlobalsForVMStructs"
        self._shift: int | None = None
        if structs.has(own, "_ZPointerLoadShift"):
            known = word(structs.place("_instance_p", own))
            self._shift = word(known + structs.place("_ZPointerLoadShift", own))

    @override
    def address_of(self, reference: int) -> int:
        address = self.key_of(reference)
        if self._shift is None:
            return address
        return address >> c_uint32.from_address(self._shift).value


class ShenandoahHeap(JavaHeap):
    """Shenandoah's heap, which does not count collections: the machine calls `counter` for each."""

    def __init__(self, structs: Structs) -> None:
        super().__init__(structs)
        self.counter = SampleCounter()

    @property
    @override
    def collections(self) -> int:
        return sum(collections for collections, _ in self.counter.counts(1))


class EpsilonHeap(JavaHeap):
    """Epsilon's heap, which is never collected, so that the driver ends buffers."""

    def __init__(self, structs: Structs) -> None:
        super().__init__(structs)
        self._space = word(self._heap + structs.place("_space", "EpsilonHeap"))
        self._top = structs.place("_top", "ContiguousSpace", "Space")
        self._reserved_bytes = (
            word(self._heap + structs.place("_reserved", "CollectedHeap") + WORD_BYTES) * WORD_BYTES
        )

    @property
    def is_used_up(self) -> bool:  # type: ignore[override]
        return 2 * (word(self._space + self._top) - self.start) > self._reserved_bytes


HEAPS: Mapping[str, type[JavaHeap]] = {
    SERIAL: SerialEden,
    PARALLEL: ParallelHeap,
    G1: G1Heap,
    ZGC: ZHeap,
    SHENANDOAH: ShenandoahHeap,
    EPSILON: EpsilonHeap,
}
"""The heap of each collector."""
