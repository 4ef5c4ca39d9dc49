"""A sample in a block of two objects is reported for the first object, not for the sampled one."""
from rpython.memory.gc.test.test_direct import BaseDirectGCTest, S, VARNODE
from rpython.rtyper.lltypesystem import llarena, llmemory, lltype


class TestSampledFirstOfBlock(BaseDirectGCTest):
    from rpython.memory.gc.incminimark import IncrementalMiniMarkGC as GCClass

    def malloc_block(self, *types):
        # call_malloc_nursery(), and the code that fills the headers in after it
        gc, header = self.gc, self.gc.gcheaderbuilder.size_gc_header
        typeids = [self.get_type_id(TYPE) for TYPE in types]
        sizes = [header + gc.fixed_size(typeid) for typeid in typeids]
        total = sum(llmemory.raw_malloc_usage(size) for size in sizes)
        address = gc.nursery_free
        gc.nursery_free = address + total
        if gc.nursery_free > gc.nursery_top:
            address = gc.collect_and_reserve(total)
        block = []
        for TYPE, typeid, size in zip(types, typeids, sizes):
            llarena.arena_reserve(address, size)
            gc.init_gc_object(address, typeid, flags=0)
            block.append(llmemory.cast_adr_to_ptr(address + header, lltype.Ptr(TYPE)))
            address += llmemory.raw_malloc_usage(size)
        return block

    def test_sample_in_the_second_object(self):
        reported = []
        self.gc._get_first_sample_offset = lambda: 40     # S has 32 bytes
        self.gc._vmprof_allocation_sample_now = lambda gc: None
        self.gc._cintf_vmprof_report_minor_gc = (
            lambda array, size: reported.append((array[0] >> 2, array[0] & 1)))
        self.gc.gc_set_allocation_sampling(1024)
        dead, living = self.malloc_block(S, VARNODE)
        living.a = lltype.nullptr(VARNODE.a.TO)
        self.stackroots.append(living)
        self.gc._minor_collection()
        sampled = self.gc.get_member_index(self.get_type_id(VARNODE))
        assert reported == [(sampled, 1)]
