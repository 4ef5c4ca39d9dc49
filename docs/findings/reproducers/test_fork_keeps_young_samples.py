"""A forked child reports its parent's samples, or reads freed memory."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S


class TestForkKeepsYoungSamples(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def fork_with_a_pending_sample(self):
        self.reports = []
        self.gc._get_first_sample_offset = lambda: 16
        self.gc._vmprof_allocation_sample_now = lambda gc: None
        self.gc._cintf_vmprof_report_minor_gc = (
            lambda array, size: self.reports.append(size - 3))
        self.gc.gc_set_allocation_sampling(16)
        self.malloc(S)
        self.gc.after_fork(0)

    def test_child_has_no_samples(self):
        self.fork_with_a_pending_sample()
        self.gc.gc_set_allocation_sampling(1024)
        self.gc._minor_collection()
        assert self.reports == []

    def test_child_collects_first(self):
        self.fork_with_a_pending_sample()
        self.gc._minor_collection()
        self.gc.gc_set_allocation_sampling(1024)
        self.gc._minor_collection()
        assert self.reports == []
