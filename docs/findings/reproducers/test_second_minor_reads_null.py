"""The second minor collection of one allocation subtracts from a null pointer."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S, VAR


class TestSecondMinorReadsNull(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass
    GC_PARAMS = {'nursery_size': 64}

    def test_allocation_after_minor_collection(self):
        self.gc._get_first_sample_offset = lambda: 1024
        self.gc.gc_set_allocation_sampling(1024)
        # a finalizer or callback, run after the collection
        self.gc.rrc_invoke_callback = lambda: self.malloc(S)    # 32 bytes
        self.malloc(S)
        self.malloc(VAR, 3)                 # 40 bytes: collects twice
        assert self.gc.nursery_free.offset == 40
