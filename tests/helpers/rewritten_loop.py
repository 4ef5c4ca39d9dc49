"""Prints what the JIT's rewriter makes of a loop, untranslated, in Python 2.7.

    PYTHONPATH=RPYTHON python2.7 rewritten_loop.py FOLDER FORM REPAIRED PLANTED

FOLDER has `jit_switches.py`, FORM is the number of a loop, and the others are its switches.
"""

# Python 2.7 has no annotations, and no `suppress`.
# ruff: noqa: ANN002, ANN201, E402, SIM105, UP031
# mypy: ignore-errors

import sys

FOLDER = sys.argv[1]
FORM, REPAIRED, PLANTED = map(int, sys.argv[2:])
sys.argv[1:] = ["compiled"]
sys.path.insert(0, FOLDER)
import jit_switches
import translated
from rpython.jit.backend.llsupport.test import test_rewrite

LOOPS = (
    """
    [p3, p4]
    p0 = new(descr=tdescr)
    setarrayitem_gc(p3, 0, p0, descr=cdescr)
    p1 = getarrayitem_gc_r(p3, 0, descr=cdescr)
    setfield_gc(p1, p4, descr=tzdescr)
    jump(p3, p4)
    """,
    """
    [p3, p4]
    p0 = new_array_clear(2, descr=cdescr)
    p1 = getarrayitem_gc_r(p0, 0, descr=cdescr)
    setarrayitem_gc(p0, 0, p4, descr=cdescr)
    setarrayitem_gc(p3, 0, p1, descr=cdescr)
    jump(p3, p4)
    """,
)


class RewrittenError(Exception):
    """There is nothing to compare the result with."""


def show(*arguments):
    for operation in rewrite(*arguments):
        sys.stdout.write("%s\n" % operation)
    raise RewrittenError


translated.setting = lambda _: REPAIRED
jit_switches.planted = lambda: PLANTED
jit_switches.install()
framework = test_rewrite.TestFramework()
framework.setup_method(None)
rewrite, framework.gc_ll_descr.rewrite_assembler = framework.gc_ll_descr.rewrite_assembler, show
try:
    framework.check_rewrite(LOOPS[FORM], "[]\njump()")
except RewrittenError:
    pass
