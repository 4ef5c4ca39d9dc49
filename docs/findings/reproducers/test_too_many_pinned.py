"""As many pinned objects as are allowed leave no room for another."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest
from rpython.rtyper.lltypesystem import llmemory, lltype

ARRAY = lltype.GcArray(lltype.Signed)


class TestTooManyPinned(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_largest_object_fits_beside_pinned_ones(self):
        for _ in range(self.gc.max_number_of_pinned_objects):
            self.malloc(ARRAY, 4)           # leaves 48 bytes free
            pinned = self.malloc(ARRAY, 5)  # 56 bytes
            self.stackroots.append(pinned)
            assert self.gc.pin(llmemory.cast_ptr_to_adr(pinned))
        self.malloc(ARRAY, 5)
