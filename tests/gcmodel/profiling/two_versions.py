"""Two versions of a program: the second has one call more, of a function that is new."""

from gcmodel.profiling.sampled_run import Program

SOURCE = """
def answer(heap): heap.allocate_string(200)
def remember(heap): heap.allocate_node(1)
def main(heap):
    for _ in range(500): answer(heap); remember(heap)
"""
CHANGED = SOURCE.replace("heap.allocate_string(200)", "also(heap); heap.allocate_string(200)")
MORE_BYTES = 500 * 88


def _main_of(source: str) -> Program:
    names: dict[str, Program] = {}
    exec(compile(source, "server.py", "exec"), names)
    return names["main"]


BEFORE = _main_of(SOURCE)
AFTER = _main_of(CHANGED + "def also(heap): heap.allocate_array(9)\n")
AFTER_MOVED = _main_of("def also(heap): heap.allocate_array(9)\n" + CHANGED)
"""The same with every line moved."""
