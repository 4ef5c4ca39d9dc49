"""Marking never ends beside a large object that refers to itself and to a pinned one."""
from rpython.memory.gc.incminimark import STATE_SCANNING
from rpython.memory.gc.test.test_direct import BaseDirectGCTest
from rpython.rtyper.lltypesystem import llmemory, lltype

ARRAY = lltype.GcArray(llmemory.GCREF)
T = lltype.GcStruct('T', ('x', lltype.Signed))


class TestMarkingWithoutEnd(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_marking_ends(self):
        array = self.malloc(ARRAY, 150)     # larger than a marking step
        self.stackroots.append(array)
        self.gc._minor_collection()
        pinned = self.malloc(T)
        assert self.gc.pin(llmemory.cast_ptr_to_adr(pinned))
        for i, p in enumerate([array, pinned]):
            self.writearray(array, i, lltype.cast_opaque_ptr(llmemory.GCREF, p))
        for _ in range(30):
            self.gc.debug_gc_step()
            if self.gc.gc_state == STATE_SCANNING:
                return
        assert False, "still marking after 30 steps"
