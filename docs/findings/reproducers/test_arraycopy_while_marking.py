"""Copying an array while marking frees what was copied."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S, VAR
from rpython.rtyper.lltypesystem import llmemory, lltype


class TestArraycopyWhileMarking(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def arraycopy(self, source, dest, length):      # like rgc.ll_arraycopy()
        covered = self.gc.writebarrier_before_copy(
            llmemory.cast_ptr_to_adr(source), llmemory.cast_ptr_to_adr(dest),
            0, 0, length)
        for i in range(length):
            if covered:
                dest[i] = source[i]
            else:
                self.writearray(dest, i, source[i])

    def test_without_cards(self):
        source = self.malloc(VAR, 6)
        self.stackroots.append(source)
        dest = self.malloc(VAR, 6)
        self.stackroots.append(dest)
        node = self.malloc(S)
        node.x = 42
        self.writearray(source, 0, node)
        self.gc._minor_collection()
        self.gc.TEST_VISIT_SINGLE_STEP = True
        self.gc.debug_gc_step(2)            # visits dest, not yet source
        self.arraycopy(source, dest, 2)
        self.writearray(source, 0, lltype.nullptr(S))
        self.gc.collect()
        assert dest[0].x == 42

    def test_with_cards(self):
        self.test_without_cards()
    test_with_cards.GC_PARAMS = {'card_page_indices': 4}
