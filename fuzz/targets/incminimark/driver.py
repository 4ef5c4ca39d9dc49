"""The driver of incminimark: PyPy's own collector, untranslated, behind gcfuzz's protocol.

    python2.7 driver.py SOURCE_DIR [finalizers] [limit]

SOURCE_DIR is a folder with the `rpython` package: where pip put `rpython==0.2.1`, or a checkout of
PyPy or of its allocation-sampling fork. Python 2.7 only; gcfuzz never imports this program.

It works like the collector's own direct tests (rpython/memory/gc/test/test_direct.py): it makes an
IncrementalMiniMarkGC, keeps the roots itself, and calls the collector's methods as a translated
program does, with a write barrier before each store. Where RPython has a function, such as
`ll_arraycopy`, the driver takes the same steps.

With `finalizers` it has a FinalizerQueue, as RPython's programs have them (rlib/rgc.py), and a type
of nodes with destructors. The integer of such a node is in the driver: in the node is the number of
its destructor, which the destructor reads. With `limit` it has a greatest heap size, and a
MemoryError is the answer `exhausted`.

Invariant: one line in, one line out. An exception of the collector, a failed assertion and a
reference to freed memory are the `error` of that answer, and the heap is not used again before the
next header. Answers depend on the input alone.

Three edges are replaced: addresses, which are numbered so that all runs are alike; the profiler
that the fork calls for each sample; and its random first distance, which is the period here.

With PYPY_GC_DEBUG=1 incminimark checks its own consistency before each major step, as in PyPy; with
2 also after each minor collection.
"""
# Python 2.7 has no annotations, f-strings or strict zip, and what is replaced is private.
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, ANN204, B905, BLE001, E402, SLF001
# ruff: noqa: TRY301, UP031
# mypy: ignore-errors

import gc as python_gc
import json
import os
import re
import sys

sys.dont_write_bytecode = True
import contract

sys.dont_write_bytecode = False
sys.path.insert(0, sys.argv[1])
# RPython prints, and that must not mix with the answers.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from rpython.memory import gcheader
from rpython.memory.gc import incminimark
from rpython.memory.gc.incminimark import IncrementalMiniMarkGC
from rpython.memory.gc.minimarktest import SimpleArenaCollection
from rpython.memory.gctypelayout import (
    FIN_HANDLER_ARRAY,
    FIN_TRIGGER_FUNC,
    WEAKREF,
    GCData,
    TypeLayoutBuilder,
    zero_gc_pointers_inside,
)
from rpython.rtyper.annlowlevel import cast_nongc_instance_to_adr
from rpython.rtyper.lltypesystem import llarena, llmemory, lltype

HAS_SAMPLING = hasattr(IncrementalMiniMarkGC, "gc_set_allocation_sampling")
HAS_COLLECT_STEP = "collect_step" in vars(IncrementalMiniMarkGC)
HAS_MOVE_BARRIER = hasattr(IncrementalMiniMarkGC, "writebarrier_before_move")
HAS_FINALIZERS, HAS_LIMIT = "finalizers" in sys.argv[2:], "limit" in sys.argv[2:]
PRESSURE_TAKES_ADDRESS = (
    "adr" in IncrementalMiniMarkGC.raw_malloc_memory_pressure.__code__.co_varnames
)
DEBUG = int(os.environ.get("PYPY_GC_DEBUG", "0"))

STACK_CHUNK = 32
"""How many addresses the collector's stacks grow by. It affects only the time."""
HEADERS_PER_CLEANING = 64
SETTINGS = (
    contract.SETTINGS[:2]
    + [
        contract.setting("card_items", 4, 0, 32, choices=[0, 4, 32]),
        contract.setting("paged_arenas", 1, 0, 1),
    ]
    + contract.SETTINGS[2:]
    + [contract.HEAP_NURSERIES] * HAS_LIMIT
)

ADDRESSES = lltype.Array(llmemory.Address)
NODE_FIELDS = (("x", lltype.Signed), ("prev", llmemory.GCREF), ("next", llmemory.GCREF))
NODE = lltype.GcStruct("node", *NODE_FIELDS)
DESTRUCTIBLE = lltype.GcStruct("destructible", *NODE_FIELDS)
ARRAY = lltype.GcArray(llmemory.GCREF)
CHARACTERS = lltype.Array(lltype.Char, hints={"immutable": True, "extra_item_after_alloc": 1})
STRING = lltype.GcStruct("rpy_string", ("hash", lltype.Signed), ("chars", CHARACTERS))
TYPES = (NODE, WEAKREF, ARRAY, STRING)
TYPE_INDICES = {kind: index for index, kind in enumerate(TYPES, 1)}
TYPE_INDICES[DESTRUCTIBLE] = TYPE_INDICES[NODE]
REFERENCES = ("prev", "next")
NULL = lltype.nullptr(llmemory.GCREF.TO)


class IllegalError(Exception):
    """A line that makes no sense."""


def chosen(config):
    """The configuration with its defaults. Raises IllegalError."""
    result = {each["name"]: each["default"] for each in SETTINGS}
    for name, value in config.items():
        if name not in result or not isinstance(value, int):
            raise IllegalError("config has no setting %s = %r" % (name, value))
        result[name] = value
    return result


def stated(config):
    """The contract under this configuration."""
    arenas = contract.ARENAS if config["paged_arenas"] else {}
    old_space = dict(arenas, card_items=config["card_items"])
    result = contract.contract_of(config, HAS_SAMPLING, SETTINGS, old_space)
    if HAS_LIMIT:
        return contract.with_exhaustion(result, limit_bytes(config))
    return contract.with_finalizers(result) if HAS_FINALIZERS else result


def limit_bytes(config):
    """What the collector's objects may take outside the nursery."""
    return config["heap_nurseries"] * config["nursery_bytes"]


# The collector, with its edges replaced.


def _log_nothing(*_):
    """Replaces the collector's log, which takes most of the time."""


# Arenas are far apart, in the order of their creation.
llarena.Arena._getid = lambda arena: arena._arena_index << 32
incminimark.debug_print = incminimark.debug_start = incminimark.debug_stop = _log_nothing


class BumpPointer(llarena.fakearenaaddress):
    """An address between objects: adding a size gives the address after the object there.

    llarena guesses whether `address + size` is in that object or after it, and guesses wrong where
    the free space ends at a pinned object.
    """

    def __add__(self, other):
        return self.arena.getaddr(self.offset + llmemory.raw_malloc_usage(other))


class ObservedGC(IncrementalMiniMarkGC):
    """Incminimark, which reports collections and samples to its driver."""

    driver = None
    _free = llmemory.NULL

    @property
    def nursery_free(self):
        return self._free

    @nursery_free.setter
    def nursery_free(self, address):
        if address:
            bump = BumpPointer.__new__(BumpPointer)
            bump.__dict__.update(address.__dict__)
            address = bump
        self._free = address

    def _minor_collection(self):
        self.driver.happened("M")
        IncrementalMiniMarkGC._minor_collection(self)

    def rrc_invoke_callback(self):
        """A translated program runs due callbacks and finalizers here."""
        IncrementalMiniMarkGC.rrc_invoke_callback(self)
        self.driver.run_callback()

    def mark_finalizer_to_run(self, fq_index, obj):
        """All queues are one here, and the index of a queue is the number of a finalizer."""
        self.driver.pending.append(fq_index)
        IncrementalMiniMarkGC.mark_finalizer_to_run(self, 0, obj)

    def _vmprof_allocation_sample_now(self, _):
        self.driver.happened("s")

    def _cintf_vmprof_report_minor_gc(self, array, length):
        self.driver.reported([array[index] for index in range(length)])

    def _get_first_sample_offset(self):
        return self.sample_allocated_bytes


if HAS_SAMPLING:

    class _NoProfiler:
        cintf = None

    incminimark._get_vmprof = _NoProfiler


class Config:
    """The only option of a translation that the collector reads."""

    taggedpointers = False


class RootWalker:
    """Shows the roots to the collector, and updates those that it moved."""

    def __init__(self, driver):
        self._driver = driver

    def walk_roots(self, collect_stack_root, collect_in_nongc, collect_in_gc, is_minor=False):
        driver = self._driver
        if collect_in_gc:
            for address in driver.layout.addresses_of_static_ptrs:
                if address.address[0]:
                    collect_in_gc(driver.gc, address)
        for roots in (driver.roots, driver.kept):
            if collect_stack_root and roots:
                self._walk(roots, collect_stack_root)

    def _walk(self, roots, collect_stack_root):
        stack = lltype.malloc(ADDRESSES, len(roots), flavor="raw", track_allocation=False)
        for slot, root in enumerate(roots):
            stack[slot] = llmemory.cast_ptr_to_adr(root)
        base = lltype.direct_arrayitems(stack)
        for slot in range(len(roots)):
            place = lltype.direct_ptradd(base, slot)
            collect_stack_root(self._driver.gc, llmemory.cast_ptr_to_adr(place))
        for slot in range(len(roots)):
            roots[slot] = llmemory.cast_adr_to_ptr(stack[slot], llmemory.GCREF)
        lltype.free(stack, flavor="raw", track_allocation=False)

    def _walk_prebuilt_gc(self, callback):
        """The consistency checks call this; the roots lead to the prebuilt objects here."""

    def finished_minor_collection(self):
        """A translated program informs its JIT here."""


class LayoutBuilder(TypeLayoutBuilder):
    """Knows which types have a destructor. A translated program looks for the method `__del__`."""

    destructor = None

    def make_destructor_funcptr_for_type(self, kind):
        if kind is DESTRUCTIBLE:
            function = GCData.CUSTOM_FUNC_PTR.TO
            return lltype.functionptr(function, "destructor", _callable=self.destructor), True
        return TypeLayoutBuilder.make_destructor_funcptr_for_type(self, kind)


class HeapDriver:
    """One heap and its mutator. `roots` are references of type GCREF.

    `pending` are the numbers of the finalizers in the queue. `kept` are the objects that were taken
    from it, and `kept_numbers` their numbers. `called` are the numbers of destructors.
    """

    def __init__(self, config):
        llarena.Arena._count_arenas = 0
        self.roots, self.kept = [], []
        self.pending, self.kept_numbers, self.called = [], [], []
        # The integers of nodes with destructors, by the numbers of these.
        self._integers = {}
        self.order = ""
        self.reports = []
        self._minors = self._graph_figures = self._filled_figures = 0
        self._callback_length = None
        self._allocating = False
        self._identities = {}
        self._make_gc(config)
        self._prebuilt = [self._make_prebuilt(NODE) for _ in range(config["prebuilt_nodes"])]
        for _ in range(config["prebuilt_arrays"]):
            self._prebuilt.append(self._make_prebuilt(ARRAY, contract.PREBUILT_ARRAY_LENGTH))

    def _make_gc(self, config):
        self._has_arenas = bool(config["paged_arenas"])
        arenas = None if self._has_arenas else SimpleArenaCollection
        self.gc = ObservedGC(
            Config,
            translated_to_c=False,
            chunk_size=STACK_CHUNK,
            nursery_size=config["nursery_bytes"],
            large_object=config["large_object_bytes"],
            card_page_indices=config["card_items"],
            ArenaCollectionClass=arenas,
        )
        self.gc.driver = self
        self.gc.set_root_walker(RootWalker(self))
        self.layout = LayoutBuilder(ObservedGC)
        self.layout.destructor = self._destroyed
        queries = self.layout.initialize_gc_query_function(self.gc)
        kinds = TYPES + (DESTRUCTIBLE,) * HAS_FINALIZERS
        self._type_ids = {kind: self.layout.get_type_id(kind) for kind in kinds}
        self._kind_of = {type_id.index: kind for kind, type_id in self._type_ids.items()}
        self.gc.setup()
        if HAS_LIMIT:
            self.gc.set_max_heap_size(limit_bytes(config))
        self._make_queue(queries)
        self.gc.TEST_VISIT_SINGLE_STEP = bool(config["single_step_marking"])
        if config["moving_nursery"]:
            # The nurseries that PYPY_GC_NURSERY_DEBUG makes it rotate through.
            os.environ["PYPY_GC_DEBUG"] = "1"
            self.gc.post_setup()
            self.gc.gc_nursery_debug = True
        self.gc.DEBUG = DEBUG

    def _make_queue(self, queries):
        handlers = lltype.malloc(FIN_HANDLER_ARRAY, int(HAS_FINALIZERS), immortal=True)
        if HAS_FINALIZERS:
            self._queue = self.gc.AddressDeque()
            handlers[0].deque = cast_nongc_instance_to_adr(self._queue)
            # The queue is emptied by an action.
            handlers[0].trigger = lltype.functionptr(
                FIN_TRIGGER_FUNC, "trigger", _callable=_log_nothing
            )
        queries.finalizer_handlers = llmemory.cast_ptr_to_adr(handlers)

    def _make_prebuilt(self, kind, *length):
        obj = lltype.malloc(kind, *length, immortal=True, zero=True)
        self.layout.consider_constant(kind, obj._obj, self.gc)
        return lltype.cast_opaque_ptr(llmemory.GCREF, obj)

    # Events of the collector.

    def happened(self, event):
        """A sample or a minor collection. Raises RuntimeError after too many."""
        self.order += event
        if event == "s" and len(self.order) > contract.SAMPLES_MAX:
            raise RuntimeError("samples without an end in one action")
        if event == "M":
            self._minors += 1
            figures = self._graph_figures + self._filled_figures
            most = contract.MINORS_MAX + contract.MINORS_PER_FIGURE * figures
            if self._minors > most:
                raise RuntimeError("minor collections without an end in one action")

    def reported(self, array):
        """A report of a minor collection: its entries, then three figures."""
        self.order += "R"
        names = ("memory_used_bytes", "arena_bytes", "major_state")
        self.reports.append(dict(zip(names, array[-3:]), entries=array[:-3]))

    def run_callback(self):
        """Run the callback at the end of a collection that an allocation caused."""
        if self._allocating and self._callback_length is not None:
            self._allocating = False
            self._malloc(STRING, self._callback_length)

    # One action.

    def perform(self, action):
        self.order, self.reports, self._minors = "", [], 0
        arguments = {str(key): value for key, value in action.items()}
        name = arguments.pop("do")
        if name not in CARRY_OUT:
            raise IllegalError("there is no action %r" % name)
        try:
            answer = CARRY_OUT[name](self, **arguments) or {}
        except MemoryError:
            if not HAS_LIMIT:
                raise
            self._allocating = False
            answer = {"exhausted": True}
        if self.order:
            answer["order"] = self.order
            answer["samples"] = self.order.count("s")
            answer["minors"] = self.order.count("M")
            if self.reports:
                answer["reports"] = self.reports
            if answer["minors"]:
                answer["graph"] = self._graph()
        answer.update(self._pointers())
        return answer

    def _pointers(self):
        heap = self.gc
        start = heap.nursery
        result = {
            "free": heap.nursery_free - start,
            "limit": heap.nursery_top - start,
            "top": heap.nursery_top - start,
            "state": heap.gc_state,
        }
        if HAS_SAMPLING and heap.sample_point:
            result["top"] = heap.real_nursery_top - start
            result["sample_point"] = heap.sample_point - start
        return result

    # Objects.

    def _object(self, reference):
        """The object of a GCREF. Raises if it is not alive."""
        address = llmemory.cast_ptr_to_adr(reference)
        kind = self._kind_of[self.gc.get_type_id(address).index]
        return lltype.cast_opaque_ptr(lltype.Ptr(kind), reference)

    def _root(self, slot):
        if not 0 <= slot < len(self.roots):
            raise IllegalError("there is no root %d" % slot)
        return self._object(self.roots[slot])

    def _references(self, obj):
        kind = lltype.typeOf(obj).TO
        if kind in (NODE, DESTRUCTIBLE):
            return [obj.prev, obj.next]
        if kind is ARRAY:
            return [obj[index] for index in range(len(obj))]
        return []

    def _graph(self):
        """The rows of a walk from the roots, breadth first. Raises at a dangling reference."""
        queue, rows_of = [], {}
        for reference in self.roots + self._prebuilt:
            self._discover(reference, queue, rows_of)
        graph = []
        for obj in queue:  # It grows.
            row = [TYPE_INDICES[lltype.typeOf(obj).TO], self._number(obj)]
            for field, reference in enumerate(self._references(obj)):
                if reference:
                    row += [field, self._discover(reference, queue, rows_of)]
            graph.append(row)
        self._graph_figures = sum(len(row) for row in graph)
        return graph

    def _discover(self, reference, queue, rows_of):
        """The row of an object, which joins the queue if it has none."""
        obj = self._object(reference)
        key = obj._as_obj()
        if key not in rows_of:
            rows_of[key] = len(queue)
            queue.append(obj)
            if lltype.typeOf(obj).TO is WEAKREF:
                _is_alive(obj)
        return rows_of[key]

    # Allocation.

    def _malloc(self, kind, length, nonmovable=False):
        type_id = self._type_ids[kind]
        if nonmovable:
            reference = self.gc.malloc_fixed_or_varsize_nonmovable(type_id, length)
            address = llmemory.cast_ptr_to_adr(reference)
        else:
            address = self.gc.malloc(type_id, length)
        return llmemory.cast_adr_to_ptr(address, lltype.Ptr(kind))

    def _allocate(self, kind, length, nonmovable=False):
        self._allocating = True
        obj = self._malloc(kind, length, nonmovable)
        self._allocating = False
        zero_gc_pointers_inside(obj, kind)
        return self._append(obj)

    def _append(self, obj):
        """Make an object a root; returns it and the answer."""
        self.roots.append(lltype.cast_opaque_ptr(llmemory.GCREF, obj))
        address = llmemory.cast_ptr_to_adr(obj)
        if self.gc.is_in_nursery(address):
            at = llarena.getfakearenaaddress(address) - self.gc.size_gc_header() - self.gc.nursery
            size = self.gc.nursery_free - self.gc.nursery - at
            return obj, {"size": size, "outside": False, "at": at}
        return obj, {"size": self._unrounded_bytes(obj), "outside": True}

    def _unrounded_bytes(self, obj):
        """The object's size as external_malloc() computes it."""
        type_id = self.gc.get_type_id(llmemory.cast_ptr_to_adr(obj))
        size = self.gc.size_gc_header() + self.gc.fixed_size(type_id)
        if self.gc.is_varsize(type_id):
            size += self.gc.varsize_item_sizes(type_id) * self._number(obj)
        return llmemory.raw_malloc_usage(size)

    def allocate_node(self, number, nonmovable=False, destructor=None):
        kind = NODE if destructor is None else DESTRUCTIBLE
        obj, answer = self._allocate(kind, 0, nonmovable)
        if destructor is not None:
            obj.x = destructor
        self._set_number(obj, number)
        return answer

    def allocate_string(self, length, nonmovable=False):
        return self._allocate(STRING, length, nonmovable)[1]

    def allocate_array(self, length, nonmovable=False):
        return self._allocate(ARRAY, length, nonmovable)[1]

    def allocate_weakref(self, root):
        self._root(root)
        # A local variable holds the object in a translated program, and is the first of the roots.
        self.roots.insert(0, self.roots[root])
        try:
            obj, answer = self._allocate(WEAKREF, 0)
        finally:
            target = self.roots.pop(0)
        obj.weakptr = llmemory.cast_ptr_to_adr(target)
        return answer

    def allocate_old_string(self, length):
        self._allocating = True
        type_id = self._type_ids[STRING]
        address = self.gc.external_malloc(type_id, length, alloc_young=False)
        self._allocating = False
        return self._append(llmemory.cast_adr_to_ptr(address, lltype.Ptr(STRING)))[1]

    def load_prebuilt(self, index):
        self.roots.append(self._prebuilt[index])

    def free(self, root):
        del self.roots[root]

    # Access.

    def read(self, root, field):
        found = self._references(self._root(root))[field]
        if not found:
            return None
        found_object = self._object(found)._as_obj()
        self.roots.append(found)
        same = (self._object(each)._as_obj() is found_object for each in self.roots)
        return {"value": list(same).index(True)}

    def read_number(self, root):
        return {"value": self._number(self._root(root))}

    def read_weakref(self, root, keep=False):
        weakref = self._root(root)
        is_alive = _is_alive(weakref)
        if keep and is_alive:
            self.roots.append(llmemory.cast_adr_to_ptr(weakref.weakptr, llmemory.GCREF))
        elif keep:
            self.roots.append(self.roots[root])
        return {"alive": is_alive}

    def write(self, root, field, value=None):
        obj = self._root(root)
        if value is not None:
            self._root(value)
        self._store(obj, field, NULL if value is None else self.roots[value])

    def _store(self, obj, field, reference):
        """Store a reference, after the write barrier."""
        address = llmemory.cast_ptr_to_adr(obj)
        if lltype.typeOf(obj).TO is ARRAY:
            self.gc.write_barrier_from_array(address, field)
            obj[field] = reference
        else:
            self.gc.write_barrier(address)
            setattr(obj, REFERENCES[field], reference)

    def write_number(self, root, number):
        self._set_number(self._root(root), number)

    def _set_number(self, node, number):
        if lltype.typeOf(node).TO is DESTRUCTIBLE:
            self._integers[node.x] = number
        else:
            node.x = number

    def _number(self, obj):
        """A node's integer, or the length of a string or array; 0 of a weak reference."""
        kind = lltype.typeOf(obj).TO
        if kind is DESTRUCTIBLE:
            return self._integers[obj.x]
        if kind is NODE:
            return obj.x
        if kind is STRING:
            return len(obj.chars)
        return len(obj) if kind is ARRAY else 0

    def copy_array(self, source, dest, source_start, dest_start, length):
        """Copies as ll_arraycopy() does, but with the barrier also for one item and an overlap.

        There ll_arraycopy() copies one by one. The barrier's documentation and the collector's own
        tests include both cases.
        """
        source, dest = self._root(source), self._root(dest)
        items = [source[source_start + index] for index in range(length)]
        is_covered = self.gc.writebarrier_before_copy(
            llmemory.cast_ptr_to_adr(source),
            llmemory.cast_ptr_to_adr(dest),
            source_start,
            dest_start,
            length,
        )
        for index, item in enumerate(items, dest_start):
            if is_covered:
                dest[index] = item
            else:
                self._store(dest, index, item)

    def fill_array(self, root, value=None):
        """Fills as ll_arrayfill() does: one barrier for all items."""
        array = self._root(root)
        if value is not None:
            self._root(value)
        # Also in the list of gray objects, which the graph does not show.
        self._filled_figures += 2 * len(array)
        self.gc.write_barrier(llmemory.cast_ptr_to_adr(array))
        for index in range(len(array)):
            array[index] = NULL if value is None else self.roots[value]

    def move_array(self, root, source_start, dest_start, length):
        """Moves as ll_arraymove() does."""
        array = self._root(root)
        items = [array[source_start + index] for index in range(length)]
        if HAS_MOVE_BARRIER and length > 1:
            self.gc.writebarrier_before_move(llmemory.cast_ptr_to_adr(array))
            for index, item in enumerate(items, dest_start):
                array[index] = item
        else:
            for index, item in enumerate(items, dest_start):
                self._store(array, index, item)

    def take_identity(self, root):
        self._root(root)
        address = self.gc.id(self.roots[root])
        return {"identity": self._identities.setdefault(address, len(self._identities) + 1)}

    # Pinning, callbacks, pressure.

    def pin(self, root):
        if not self.gc.pin(llmemory.cast_ptr_to_adr(self._root(root))):
            raise RuntimeError("the collector refused to pin")

    def unpin(self, root):
        self.gc.unpin(llmemory.cast_ptr_to_adr(self._root(root)))

    def set_callback(self, length=None):
        self._callback_length = length

    def add_memory_pressure(self, extra_bytes):
        address = (llmemory.NULL,) if PRESSURE_TAKES_ADDRESS else ()
        self.gc.raw_malloc_memory_pressure(extra_bytes, *address)

    # Finalizers.

    def _destroyed(self, address):
        """The destructor of a node."""
        self.called.append(llmemory.cast_adr_to_ptr(address, lltype.Ptr(DESTRUCTIBLE)).x)

    def register_finalizer(self, root, number):
        self._root(root)
        self.gc.register_finalizer(number, self.roots[root])

    def unregister_finalizer(self, root):
        self.gc.ignore_finalizer(llmemory.cast_ptr_to_adr(self._root(root)))

    def run_finalizers(self, keep=False):
        numbers, self.pending = self.pending, []
        taken = []
        while self._queue.non_empty():
            taken.append(llmemory.cast_adr_to_ptr(self._queue.popleft(), llmemory.GCREF))
        self.kept, self.kept_numbers = (taken, numbers) if keep else ([], [])
        called, self.called = self.called, []
        return {"finalized": called + numbers}

    def resurrect(self, number):
        self.roots.append(self.kept[self.kept_numbers.index(number)])

    # Collection.

    def collect_minor(self):
        self.gc.collect(-1)

    def collect_progress(self):
        self.gc.collect(0)

    def collect_step(self):
        if HAS_COLLECT_STEP:
            self.gc.collect_step()
        else:
            self.gc.debug_gc_step()

    def collect_full(self):
        self.gc.collect()
        arenas = self.gc.ac._all_arenas() if self._has_arenas else ()
        arena_bytes = sum(self.gc.ac.arena_size for _ in arenas)
        return {"memory": [int(self.gc.get_total_memory_used()), arena_bytes]}

    # Sampling.

    def enable_sampling(self, period_bytes):
        self.gc.gc_set_allocation_sampling(period_bytes)

    def disable_sampling(self, report=False):
        self.gc.gc_set_allocation_sampling(-1 if report else 0)

    def fork(self):
        self.gc.after_fork(0)

    def check_heap(self):
        return {"graph": self._graph()}


def _is_alive(weakref):
    """Whether a weak reference has an object. Raises if that was freed."""
    if not weakref.weakptr:
        return False
    return bool(llmemory.cast_adr_to_ptr(weakref.weakptr, llmemory.GCREF)._obj)


CARRY_OUT = {
    name: vars(HeapDriver)[name]
    for name in contract.actions_of(HAS_SAMPLING) + contract.FINALIZER_ACTIONS * HAS_FINALIZERS
}


# The conversation.


def error_of(problem):
    """The answer for an exception, without addresses, which differ from run to run."""
    text = re.sub(r"0x[0-9a-fA-F]+", "0x...", " ".join(str(problem).split()))
    return {"error": "%s: %s" % (type(problem).__name__, text)}


class Answering:
    """Answers line after line. `_driver` is None while there is no usable heap."""

    def __init__(self):
        self._driver = None
        self._headers = 0

    def answer(self, line):
        try:
            data = json.loads(line)
            if "gcfuzz" in data:
                return self._start(data.get("config", {}))
            if self._driver is None:
                raise IllegalError("the heap is gone after an error; send a header")
            return self._driver.perform(data)
        except Exception as problem:  # A broken collector raises anything.
            self._driver = None
            return error_of(problem)

    def _start(self, config):
        config = chosen(config)
        self._driver = None
        # RPython's tables keep every object of every heap.
        for table in (lltype._subarray._cache, lltype._arraylenref._cache, gcheader.header2obj):
            table.clear()
        self._headers += 1
        if self._headers % HEADERS_PER_CLEANING == 0:
            python_gc.collect()  # A heap is full of cycles.
        self._driver = HeapDriver(config)
        return {"contract": stated(config)}


def main():
    """Answer lines until the input ends."""
    # Full collections look through RPython itself, so that they are left to _start.
    python_gc.set_threshold(20000, 10, 1000)
    answering = Answering()
    for line in iter(sys.stdin.readline, ""):
        ANSWERS.write(json.dumps(answering.answer(line), sort_keys=True) + "\n")
        ANSWERS.flush()


if __name__ == "__main__":
    main()
