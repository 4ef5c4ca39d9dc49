"""An object copied from an array with clean cards into a prebuilt array is freed."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S, VAR
from rpython.rtyper.lltypesystem import llmemory, lltype


class TestArraycopyIntoPrebuilt(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass
    GC_PARAMS = {'card_page_indices': 4}

    def arraycopy(self, source, dest, length):      # like rgc.ll_arraycopy()
        covered = self.gc.writebarrier_before_copy(
            llmemory.cast_ptr_to_adr(source), llmemory.cast_ptr_to_adr(dest),
            0, 0, length)
        for i in range(length):
            if covered:
                dest[i] = source[i]
            else:
                self.writearray(dest, i, source[i])

    def test_copy_into_prebuilt(self):
        prebuilt = lltype.malloc(VAR, 4, immortal=True, zero=True)
        self.consider_constant(prebuilt)
        source = self.malloc(VAR, 6)
        self.stackroots.append(source)
        node = self.malloc(S)
        node.x = 42
        self.writearray(source, 0, node)
        self.gc._minor_collection()         # no card is dirty any more
        self.arraycopy(source, prebuilt, 2)
        self.stackroots.pop()
        self.gc.collect()
        assert prebuilt[0].x == 42
