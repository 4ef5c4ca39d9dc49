"""A weak reference to a pinned object is cleared while the object is alive."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest
from rpython.memory.gctypelayout import WEAKREF
from rpython.rtyper.lltypesystem import llmemory, lltype

T = lltype.GcStruct('T', ('x', lltype.Signed))


class TestWeakrefToPinned(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_weakref_to_pinned(self):
        pinned = self.malloc(T)
        self.stackroots.append(pinned)
        assert self.gc.pin(llmemory.cast_ptr_to_adr(pinned))
        ref = self.malloc(WEAKREF)
        ref.weakptr = llmemory.cast_ptr_to_adr(pinned)
        self.stackroots.append(ref)
        self.gc._minor_collection()
        pinned, ref = self.stackroots
        assert ref.weakptr == llmemory.cast_ptr_to_adr(pinned)
