"""Memory pressure beside a pinned object causes no collection at the next allocation."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest
from rpython.rtyper.lltypesystem import llmemory, lltype

T = lltype.GcStruct('T', ('x', lltype.Signed))


class TestPressureBesidePinned(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def add_pressure(self, size):
        function = self.gc.raw_malloc_memory_pressure
        more = function.__code__.co_argcount - 2  # PyPy 7.3 has a second argument.
        function(size, *[llmemory.NULL] * more)

    def test_next_allocation_collects(self):
        pinned = self.malloc(T)
        self.stackroots.append(pinned)
        assert self.gc.pin(llmemory.cast_ptr_to_adr(pinned))
        collect = self.gc._minor_collection
        collect()
        collections = []
        self.gc._minor_collection = lambda: collections.append(collect())
        self.add_pressure(int(self.gc.next_major_collection_threshold) + 1)
        self.malloc(T)
        assert len(collections) == 1
