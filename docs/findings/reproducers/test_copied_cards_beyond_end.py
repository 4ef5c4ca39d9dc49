"""A copy makes cards dirty that the array copied to does not have."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, VAR
from rpython.rtyper.lltypesystem import llmemory, lltype


class TestCopiedCardsBeyondEnd(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass
    GC_PARAMS = {'card_page_indices': 4}

    def test_copy_to_a_shorter_array(self):
        source = self.malloc(VAR, 33)       # 9 cards
        self.stackroots.append(source)
        dest = self.malloc(VAR, 6)          # 2 cards
        self.stackroots.append(dest)
        self.writearray(source, 28, lltype.nullptr(VAR.OF.TO))   # dirties the 8th card
        assert self.gc.writebarrier_before_copy(
            llmemory.cast_ptr_to_adr(source), llmemory.cast_ptr_to_adr(dest),
            0, 0, 2)
        self.gc.collect()
