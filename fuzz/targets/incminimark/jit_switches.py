"""What can be changed in the JIT's backend: repairs of known defects, and mistakes for tests.

A trace's header repairs; the environment variable GCFUZZ_PLANTED plants a mistake. The text of a
method is changed before the translation. A text that this source does not have in that form stays.
"""
# Python 2.7 has no annotations.
# ruff: noqa: ANN001, ANN201, C404, D103, S102, UP031
# mypy: ignore-errors

import inspect
import sys

import translated
from rpython.jit.backend.llsupport.rewrite import GcRewriterAssembler
from rpython.jit.backend.x86.assembler import Assembler386
from rpython.jit.backend.x86.regalloc import RegAlloc
from translated import SettingCode

REPAIRS = ("LOST_WRITE", "LIMIT")
"""The bits of the setting `repaired`."""
MISTAKES = ("NO_BARRIER", "ROUNDED_DOWN", "SHORT_GROUP", "NO_ZERO", "NO_ROOTS", "NO_FLOATS")
"""The values of GCFUZZ_PLANTED, from 1."""
SWITCHES = dict([(name, 1 << bit) for bit, name in enumerate(REPAIRS)])
SWITCHES.update([(name, value) for value, name in enumerate(MISTAKES, 1)])
planted = translated.external("planted", translated.Signed)


def is_repaired(defect):
    return translated.setting(SettingCode.repaired) & defect != 0


def is_planted(mistake):
    return planted() == mistake


READ_ITEM = """\
           opnum in (rop.GETARRAYITEM_RAW_I,
                     rop.GETARRAYITEM_RAW_F):
"""
ZEROS_FIRST = """\
            if is_repaired(LOST_WRITE) and rop.is_getarrayitem(opnum):
                self.emit_pending_zeros()
"""
LENGTH_MAX = "        assert lengthloc is not ecx and lengthloc is not edx\n"
IN_BYTES = """\
        if is_repaired(LIMIT):
            maxlength = (maxlength + 2 * WORD - 1 - arraydescr.basesize) / itemsize
"""
BARRIER = "if not self.write_barrier_applied(val):\n"
ROUNDING = "        size = self.round_up_for_allocation(size)\n"
DOWN = """\
        if is_planted(ROUNDED_DOWN):
            size = (size - WORD + 1) & ~(WORD - 1)
"""
SUM = "            total_size += size\n"
ONE_WORD_LESS = """\
            if is_planted(SHORT_GROUP):
                total_size -= WORD
"""
ZEROS = "        d = self.delayed_zero_setfields(result)\n"
NO_ZEROS = """\
        if is_planted(NO_ZERO):
            return
"""
ROOT_MAP = "        gcmap = allocate_gcmap(self.assembler, frame_depth, JITFRAME_FIXED_SIZE)\n"
EMPTY_MAP = """\
        if is_planted(NO_ROOTS):
            return gcmap
"""
SAVED = "        self._push_all_regs_to_frame(mc, [ecx, edx], self.cpu.supports_floats)\n"
NOT_ALL_SAVED = SAVED.replace("supports_floats", "supports_floats and not is_planted(NO_FLOATS)")
NO_BARRIER_IF = "if not is_planted(NO_BARRIER) and not self.write_barrier_applied(val):\n"
CHANGES = (
    (GcRewriterAssembler, "transform_to_gc_load", READ_ITEM, READ_ITEM + ZEROS_FIRST),
    (Assembler386, "malloc_cond_varsize", LENGTH_MAX, LENGTH_MAX + IN_BYTES),
    (GcRewriterAssembler, "handle_write_barrier_setarrayitem", BARRIER, NO_BARRIER_IF),
    (GcRewriterAssembler, "gen_malloc_nursery", ROUNDING, DOWN + ROUNDING),
    (GcRewriterAssembler, "gen_malloc_nursery", SUM, SUM + ONE_WORD_LESS),
    (GcRewriterAssembler, "clear_gc_fields", ZEROS, NO_ZEROS + ZEROS),
    (Assembler386, "_build_malloc_slowpath", SAVED, NOT_ALL_SAVED),
    (RegAlloc, "get_gcmap", ROOT_MAP, ROOT_MAP + EMPTY_MAP),
)


def install():
    texts = {}
    for owner, name, old, new in CHANGES:
        method = getattr(owner, name).im_func
        before = texts.get(name) or inspect.getsource(method)
        if before.count(old) != 1:
            sys.stderr.write("gcfuzz: %s.%s has another form\n" % (owner.__name__, name))
            continue
        texts[name] = before.replace(old, new)
        setattr(owner, name, compiled(texts[name], method))


def compiled(text, method):
    """The changed method, with its old globals and the switches."""
    names, made = method.func_globals, {}
    for each in (is_repaired, is_planted):
        names[each.__name__] = each
    names.update(SWITCHES)
    exec(compile("if True:\n" + text, "jit_switches", "exec"), names, made)
    return made[method.__name__]
