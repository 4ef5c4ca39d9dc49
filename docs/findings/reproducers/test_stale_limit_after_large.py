"""After a large object that is sampled, the nursery ends too early."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, VAR


class TestStaleLimitAfterLarge(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_limit_is_real_nursery_top_again(self):
        self.gc._get_first_sample_offset = lambda: 320
        self.gc._vmprof_allocation_sample_now = lambda gc: None
        self.gc.gc_set_allocation_sampling(320)
        self.malloc(VAR, 37)                # 312 bytes, outside the nursery
        assert self.gc.sample_point.offset == 8
        self.malloc(VAR, 6)                 # 64 bytes, sampled
        assert self.gc.sample_point.offset == 264
        assert self.gc.real_nursery_top.offset == 256
        assert self.gc.nursery_top.offset == 256
