"""A sampled object that was allocated old is reported dead."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S
from rpython.rtyper.lltypesystem import llmemory, lltype


class TestNonyoungReportedDead(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_report_of_an_object_with_an_old_style_finalizer(self):
        survived = []
        self.gc._get_first_sample_offset = lambda: 16
        self.gc._vmprof_allocation_sample_now = lambda gc: None
        self.gc._cintf_vmprof_report_minor_gc = (
            lambda array, size: survived.append(array[0] & 1))
        self.gc.gc_set_allocation_sampling(16)
        # what malloc_fixedsize() does for it
        addr = self.gc.external_malloc(self.get_type_id(S), 0, alloc_young=False)
        self.stackroots.append(llmemory.cast_adr_to_ptr(addr, lltype.Ptr(S)))
        self.gc._minor_collection()
        assert survived == [1]
