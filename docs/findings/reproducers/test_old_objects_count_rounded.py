"""A small object that is allocated old counts rounded, a young one unrounded."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, STR


class TestOldObjectsCountRounded(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_size_that_counts(self):
        self.gc._get_first_sample_offset = lambda: 1024
        self.gc.gc_set_allocation_sampling(1024)
        left = [1024]
        for alloc_young in (True, False):
            self.gc.external_malloc(self.get_type_id(STR), 0, alloc_young=alloc_young)
            left.append(self.gc.sample_point.offset)
        assert left == [1024, 1024 - 25, 1024 - 50]
