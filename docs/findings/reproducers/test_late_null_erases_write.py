"""The null of a new field comes after a write through an alias, or not before a read."""
from rpython.jit.backend.llsupport.test import test_rewrite


class TestLateNull(object):
    def check_rewrite(self, before, after):
        framework = test_rewrite.TestFramework()
        framework.setup_method(None)
        framework.check_rewrite(before, after)

    def test_zero_ptr_field_before_getarrayitem(self):
        # if i1 == i2, then p1 is p0, and field z must be p4 afterwards
        self.check_rewrite("""
            [p3, i1, i2, p4]
            p0 = new(descr=tdescr)
            setarrayitem_gc(p3, i1, p0, descr=cdescr)
            p1 = getarrayitem_gc_r(p3, i2, descr=cdescr)
            setfield_gc(p1, p4, descr=tzdescr)
            jump()
        """, """
            [p3, i1, i2, p4]
            p0 = call_malloc_nursery(%(tdescr.size)d)
            gc_store(p0, 0, 5678, %(tiddescr.field_size)s)
            cond_call_gc_wb_array(p3, i1, descr=wbdescr)
            %(setarrayitem('p3', 'i1', 'p0', cdescr))s
            gc_store(p0, %(tzdescr.offset)s, 0, %(tzdescr.field_size)s)
            p1 = gc_load_indexed_r(p3, i2, %(cdescr.itemsize)d,   \
                                   %(cdescr.basesize)d, %(cdescr.itemsize)d)
            cond_call_gc_wb(p1, descr=wbdescr)
            %(setfield('p1', 'p4', tzdescr))s
            jump()
        """)

    def test_zero_array_before_getarrayitem(self):
        # if i1 == 0, then p1 must be null
        self.check_rewrite("""
            [p3, i1, p4]
            p0 = new_array_clear(2, descr=cdescr)
            p1 = getarrayitem_gc_r(p0, i1, descr=cdescr)
            setarrayitem_gc(p0, 0, p4, descr=cdescr)
            jump(p1)
        """, """
            [p3, i1, p4]
            p0 = call_malloc_nursery(%(cdescr.basesize + 2 * cdescr.itemsize)d)
            gc_store(p0, 0, 8111, %(tiddescr.field_size)s)
            gc_store(p0, 0, 2, %(clendescr.field_size)s)
            %(zero_array('p0', 0, 2, 'cdescr', cdescr))s
            p1 = gc_load_indexed_r(p0, i1, %(cdescr.itemsize)d,   \
                                   %(cdescr.basesize)d, %(cdescr.itemsize)d)
            %(setarrayitem('p0', 0, 'p4', cdescr))s
            jump(p1)
        """)
