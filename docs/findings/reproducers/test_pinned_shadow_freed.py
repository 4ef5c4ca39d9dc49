"""An object that was pinned, asked for its id and unpinned is freed while in use."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest
from rpython.rtyper.lltypesystem import llmemory, lltype

T = lltype.GcStruct('T', ('x', lltype.Signed))


class TestPinnedShadowFreed(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_unpin_before_sweeping(self):
        obj = self.malloc(T)
        obj.x = 42
        self.stackroots.append(obj)
        assert self.gc.pin(llmemory.cast_ptr_to_adr(obj))
        self.gc.id(obj)                     # reserves a place, the shadow
        self.gc.debug_gc_step(2)            # marks that
        self.gc.unpin(llmemory.cast_ptr_to_adr(obj))
        self.gc.collect()                   # moves there, and sweeps it
        assert self.stackroots[0].x == 42
