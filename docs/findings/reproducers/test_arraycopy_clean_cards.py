"""Copying between two arrays with cards loses an object if no copied card is dirty."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S, VAR
from rpython.rtyper.lltypesystem import llmemory, lltype


class TestArraycopyCleanCards(BaseDirectGCTest):
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

    def test_copy_while_marking(self):
        source = self.malloc(VAR, 33)       # more than 8 cards: 2 bytes
        self.stackroots.append(source)
        dest = self.malloc(VAR, 6)
        self.stackroots.append(dest)
        node = self.malloc(S)
        node.x = 42
        self.writearray(source, 0, node)
        self.gc.TEST_VISIT_SINGLE_STEP = True
        self.gc.debug_gc_step(2)            # visits dest, not yet source
        self.writearray(source, 32, lltype.nullptr(S))      # dirties the 9th card
        self.arraycopy(source, dest, 2)
        self.writearray(source, 0, lltype.nullptr(S))
        self.gc.collect()
        assert dest[0].x == 42
