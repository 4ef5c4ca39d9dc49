"""Sampling that is enabled beside an object no longer pinned takes samples too late."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S
from rpython.rtyper.lltypesystem import llmemory, lltype

T = lltype.GcStruct('T', ('x', lltype.Signed))


class TestEnableBesideOldObstacle(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_samples_are_not_late(self):
        obj = self.malloc(T)
        self.stackroots.append(obj)
        assert self.gc.pin(llmemory.cast_ptr_to_adr(obj))
        self.gc._minor_collection()
        self.gc.unpin(llmemory.cast_ptr_to_adr(obj))
        events = []
        self.gc._get_first_sample_offset = lambda: 32
        self.gc._vmprof_allocation_sample_now = lambda gc: events.append("s")
        self.gc._cintf_vmprof_report_minor_gc = lambda array, size: None
        self.gc.gc_set_allocation_sampling(32)
        for _ in range(12):
            events.append("m")
            self.malloc(S)                  # 32 bytes: one sample, or none yet
        assert "ss" not in "".join(events)
