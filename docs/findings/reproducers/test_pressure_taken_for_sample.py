"""Memory pressure causes a sample instead of a collection."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S
from rpython.rtyper.lltypesystem import llmemory


class TestPressureTakenForSample(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def test_memory_pressure_collects(self):
        events = []
        minor_collection = self.gc._minor_collection

        def observed_minor_collection():
            events.append("minor collection")
            minor_collection()

        self.gc._minor_collection = observed_minor_collection
        self.gc._get_first_sample_offset = lambda: 128
        self.gc._vmprof_allocation_sample_now = lambda gc: events.append("sample")
        self.gc.gc_set_allocation_sampling(128)
        self.gc.raw_malloc_memory_pressure(1000, llmemory.NULL)
        self.malloc(S)                      # 32 bytes
        assert events == ["minor collection"]
