"""PyPy's collector as C: each finding that a translated program shows is a test that fails.

In the style of `rpython/translator/c/test/test_newgc.py`, whose class translates all functions at
once: `PYTHONPATH=DIR python2.7 -m pytest -p rpython.conftest --assert=plain test_translated.py`.
Most functions return the number of objects that the collector lost, so 0 is right.
"""
import os
import subprocess
import weakref

from rpython.rlib import rgc
from rpython.rlib.objectmodel import compute_unique_id, keepalive_until_here
from rpython.rtyper.lltypesystem import llmemory, lltype
from rpython.translator.c.test.test_newgc import UsingFrameworkTest

NODE = lltype.GcStruct('node', ('x', lltype.Signed))
NODES = lltype.GcArray(lltype.Ptr(NODE))
ARRAYS = lltype.GcArray(lltype.Ptr(NODES))
ANYTHING = lltype.GcArray(llmemory.GCREF)
BYTES = lltype.GcArray(lltype.Char)
LARGEST = (16384 + 512) * 8             # of the objects in the nursery
CARDS_LENGTH = 20000                    # Only larger arrays have cards.
PREBUILT = lltype.malloc(NODES, 4, immortal=True, zero=True)
STEPS = 20                              # more than a major collection has here
CPU_SECONDS = 5


def new_node(x):
    node = lltype.malloc(NODE)
    node.x = x
    return node


def overwrite_free_memory():
    kept = []
    for _ in range(100000):
        kept.append(new_node(-1))
    rgc.collect(0)
    return kept


def is_lost(node):
    kept = overwrite_free_memory()
    lost = node.x != 42
    keepalive_until_here(kept)
    return lost


def start_marking(steps):
    rgc.collect(1)
    for _ in range(steps):
        rgc.collect(0)                  # visits one object: each has more bytes than a step marks


def new_arrays(length, source):
    arrays = lltype.malloc(ARRAYS, 2)
    for i in range(2):
        arrays[i] = lltype.malloc(NODES, length, zero=True)
    arrays[source][0] = new_node(42)
    return arrays


def move_node(arrays, source, dirties_card):
    if dirties_card:
        arrays[source][1024] = new_node(1)      # in the 9th card
    rgc.ll_arraycopy(arrays[source], arrays[1 - source], 0, 0, 2)
    arrays[source][0] = lltype.nullptr(NODE)


def lost_by_copies(length, dirties_card):
    lost = 0
    for steps in range(STEPS):
        for source in range(2):                 # One of them is visited first.
            arrays = new_arrays(length, source)
            start_marking(steps)
            move_node(arrays, source, dirties_card)
            rgc.collect()
            lost += is_lost(arrays[1 - source][0])
    return lost


class Pinnable(object):
    def __init__(self, x):
        self.x = x


class TestFindings(object):
    gcpolicy = 'incminimark'
    taggedpointers = removetypeptr = False
    _makefunc_str_int = UsingFrameworkTest.__dict__['_makefunc_str_int']
    setup_class = UsingFrameworkTest.setup_class.im_func
    c_allfuncs = None

    def run(self, name, arg=-1, **variables):
        command = 'ulimit -t %d; exec "$0" "$@"' % CPU_SECONDS

        variables.setdefault('PYPY_GC_INCREMENT_STEP', '8')

        def with_variables(args):
            return subprocess.check_output(
                ['/bin/sh', '-c', command] + args, env=dict(os.environ, **variables))
        return int(self.c_allfuncs(name, arg, runner=with_variables))

    # A copy between two arrays while the collector marks.

    def define_copy_while_marking(cls):
        def f(length):
            return lost_by_copies(length, dirties_card=False)
        return f

    def test_arraycopy_while_marking_without_cards(self):
        assert self.run('copy_while_marking', 6) == 0

    def test_arraycopy_while_marking_with_cards(self):
        assert self.run('copy_while_marking', CARDS_LENGTH) == 0

    def define_copy_beside_dirty_card(cls):
        def f():
            return lost_by_copies(CARDS_LENGTH, dirties_card=True)
        return f

    def test_arraycopy_clean_cards(self):
        assert self.run('copy_beside_dirty_card') == 0

    def define_copy_into_prebuilt(cls):
        def f():
            source = lltype.malloc(NODES, CARDS_LENGTH, zero=True)
            source[0] = new_node(42)
            rgc.collect(0)
            rgc.ll_arraycopy(source, PREBUILT, 0, 0, 2)
            source = lltype.nullptr(NODES)
            rgc.collect()
            return int(is_lost(PREBUILT[0]))
        return f

    def test_arraycopy_into_prebuilt(self):
        assert self.run('copy_into_prebuilt') == 0

    def define_copy_to_shorter(cls):
        def f():
            source = lltype.malloc(NODES, 2 * CARDS_LENGTH, zero=True)
            dest = lltype.malloc(NODES, CARDS_LENGTH, zero=True)
            rgc.collect(0)
            source[CARDS_LENGTH + 400] = new_node(1)    # in a card that dest does not have
            rgc.ll_arraycopy(source, dest, 0, 0, CARDS_LENGTH)
            rgc.collect()
            keepalive_until_here(source)
            keepalive_until_here(dest)
            return 0
        return f

    def test_copied_cards_beyond_end(self):
        assert self.run('copy_to_shorter') == 0

    # Pinned objects.

    def define_pinned_identity(cls):
        def f(steps):
            node = new_node(42)
            obj = lltype.cast_opaque_ptr(llmemory.GCREF, node)
            assert rgc.pin(obj)
            compute_unique_id(node)         # reserves a place, the shadow
            start_marking(steps)            # marks that
            rgc.unpin(obj)
            rgc.collect()                   # moves there, and sweeps it
            return int(is_lost(node))
        return f

    def test_pinned_shadow_freed(self):
        assert [self.run('pinned_identity', steps) for steps in range(STEPS)] == [0] * STEPS

    def define_weakref_to_pinned(cls):
        def f():
            obj = Pinnable(42)
            assert rgc.pin(obj)
            ref = weakref.ref(obj)
            rgc.collect(0)
            lost = int(ref() is None)
            keepalive_until_here(obj)
            return lost
        return f

    def test_weakref_to_pinned(self):
        assert self.run('weakref_to_pinned') == 0

    def define_marking_beside_pinned(cls):
        def dead():
            garbage = Pinnable(1)
            ref = weakref.ref(garbage)
            rgc.collect(0)
            keepalive_until_here(garbage)
            return ref
        dead._dont_inline_ = True

        def f():
            ref = dead()
            large = lltype.malloc(ANYTHING, 1000, zero=True)
            rgc.collect(0)
            node = new_node(42)
            pinned = lltype.cast_opaque_ptr(llmemory.GCREF, node)
            assert rgc.pin(pinned)
            large[0] = lltype.cast_opaque_ptr(llmemory.GCREF, large)
            large[1] = pinned
            start_marking(1000)
            keepalive_until_here(large)
            return int(ref() is not None)
        return f

    def test_marking_without_end(self):
        assert self.run('marking_beside_pinned', PYPY_GC_INCREMENT_STEP='1000') == 0

    def define_pressure_beside_pinned(cls):
        def dead():
            return weakref.ref(Pinnable(1))
        dead._dont_inline_ = True

        def f():
            obj = Pinnable(42)
            assert rgc.pin(obj)
            rgc.collect(0)
            ref = dead()
            rgc.add_memory_pressure(1 << 32)
            kept = Pinnable(2)                  # should start a collection
            lived = int(ref() is not None)
            keepalive_until_here(kept)
            keepalive_until_here(obj)
            return lived
        return f

    def test_pressure_beside_pinned(self):
        assert self.run('pressure_beside_pinned') == 0

    def define_allocate_beside_pinned(cls):
        def f():
            rgc.collect(0)
            lltype.malloc(BYTES, LARGEST // 2 - 100)
            pinned = lltype.malloc(BYTES, LARGEST - 100)
            assert rgc.pin(lltype.cast_opaque_ptr(llmemory.GCREF, pinned))
            kept = lltype.malloc(BYTES, LARGEST - 100)
            keepalive_until_here(kept)
            keepalive_until_here(pinned)
            return 0
        return f

    def test_too_many_pinned(self):
        assert self.run('allocate_beside_pinned', PYPY_GC_NURSERY=str(2 * LARGEST + 16)) == 0
