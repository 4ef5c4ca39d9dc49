"""The debugging nursery moves, the sample point stays in the old one."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest


class TestRotatingNurseryOldLimit(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_sample_point_moves_along(self, monkeypatch):
        monkeypatch.setenv('PYPY_GC_DEBUG', '1')
        self.gc.post_setup()
        self.gc.gc_nursery_debug = True     # as PYPY_GC_NURSERY_DEBUG=1
        self.gc._get_first_sample_offset = lambda: 128
        self.gc.gc_set_allocation_sampling(128)
        self.gc._minor_collection()
        assert self.gc.sample_point.arena is self.gc.nursery.arena
