"""Stacks of real Python frames: their frames, where they start, and how many are kept."""

import inspect
import json
import signal
import tracemalloc
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from gcmodel import Configuration, Events, Heap
from gcmodel.profiling import stacks
from gcmodel.profiling.profile import Frame
from gcmodel.profiling.stacks import DEPTH_MAX, LEFT_OUT, PythonStacks, StackTable


class Lines:
    """The lines that a table writes, as they would be read."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.stacks: list[tuple[int | None, int]] = []

    def __call__(self, line: str) -> None:
        match json.loads(line):
            case ["frame", *place]:
                self.frames.append(Frame(*place))
            case ["stack", caller, frame]:
                assert caller is None or caller < len(self.stacks)
                assert frame < len(self.frames)
                self.stacks.append((caller, frame))

    def functions(self, stack: int) -> list[str]:
        """The functions of a stack, the innermost first."""
        names = []
        number: int | None = stack
        while number is not None:
            number, frame = self.stacks[number]
            names.append(self.frames[frame].function)
        return names


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def python(lines: Lines) -> PythonStacks:
    return PythonStacks(lines, "a program")


def inner(python: PythonStacks) -> int:
    return python.of_allocation()


def outer(python: PythonStacks) -> int:
    return inner(python)


def recurse(depth: int, python: PythonStacks) -> int:
    return recurse(depth - 1, python) if depth else python.of_allocation()


def test_a_stack_goes_from_the_caller_to_the_program(lines: Lines, python: PythonStacks) -> None:
    stack = python.run(outer, python)
    assert lines.functions(stack) == ["inner", "outer", "a program"]
    first = inner.__code__.co_firstlineno
    assert Frame("inner", __file__, first, first + 1) in lines.frames


def test_only_the_collector_s_inner_frames_are_left_out(lines: Lines, python: PythonStacks) -> None:
    found = []

    class Asking(Events):
        def minor_collection(self) -> None:
            found.append(ask())

    def fill(heap: Heap) -> None:
        heap.collect_minor()

    ask = python.of_allocation
    python.run(fill, Heap(Configuration(), events=Asking()))
    functions = [name.rpartition(".")[2] for name in lines.functions(found[0])]
    assert functions == ["minor_collection", "collect", "collect_minor", "fill", "a program"]


def test_calls_from_one_line_are_one_stack(python: PythonStacks) -> None:
    assert len({python.run(outer, python) for _ in range(2)}) == 1


def test_calls_from_two_lines_are_two_stacks(lines: Lines, python: PythonStacks) -> None:
    def twice(python: PythonStacks) -> tuple[int, int]:
        first = inner(python)
        second = inner(python)
        return first, second

    first, second = python.run(twice, python)
    assert first != second
    assert lines.functions(first) == lines.functions(second)


def test_without_an_own_frame_the_program_is_the_stack(lines: Lines, python: PythonStacks) -> None:
    stack = python.run(partial(PythonStacks.of_allocation), python)
    assert lines.functions(stack) == ["a program"]


@pytest.mark.parametrize(("deeper", "left_out"), [(-1, []), (50, [LEFT_OUT.function])])
def test_the_innermost_frames_of_a_deep_stack_are_kept(
    deeper: int, left_out: list[str], lines: Lines, python: PythonStacks
) -> None:
    functions = lines.functions(python.run(partial(recurse, DEPTH_MAX + deeper), python))
    assert functions == ["recurse"] * DEPTH_MAX + [*left_out, "a program"]


def zig(path: int, python: PythonStacks) -> int:
    """A stack for every number."""
    return python.of_allocation() if path == 1 else (zig, zag)[path % 2](path // 2, python)


def zag(path: int, python: PythonStacks) -> int:
    return python.of_allocation() if path == 1 else (zig, zag)[path % 2](path // 2, python)


@pytest.mark.slow
@pytest.mark.parametrize(("most", "is_bounded"), [(100, True), (2**16, False)])
def test_ever_new_stacks_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, most: int, is_bounded: bool
) -> None:
    monkeypatch.setattr(stacks, "STACKS_MAX", most)
    python = PythonStacks(lambda _line: None, "a program")
    tracemalloc.start()
    for path in range(1, 3000):
        python.run(partial(zig, path), python)
    # Other threads allocate, too.
    own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, stacks.__file__)])
    tracemalloc.stop()
    assert (sum(trace.size for trace in own.traces) < 100_000) == is_bounded


def test_different_functions_have_different_stacks(lines: Lines, python: PythonStacks) -> None:
    for number in range(200):
        names: dict[str, Callable[[PythonStacks], int]] = {}
        exec(f"def f{number}(python): return python.of_allocation()", names)
        assert lines.functions(python.run(names[f"f{number}"], python))[0] == f"f{number}"


def test_a_forgotten_stack_is_written_again(
    lines: Lines, python: PythonStacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "STACKS_MAX", 1)
    first, second = (python.run(outer, python) for _ in range(2))
    assert first != second
    assert lines.functions(first) == lines.functions(second)


def test_a_moment_of_the_program_has_a_stack(lines: Lines, python: PythonStacks) -> None:
    found = []

    def interrupted(_signal: int, frame: FrameType | None) -> None:
        found.append(python.of_moment(frame))

    def program(_: None) -> None:
        signal.raise_signal(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupted)
    python.run(program, None)
    signal.signal(signal.SIGALRM, before)
    assert found[0] is not None
    assert lines.functions(found[0])[-1] == "a program"
    assert lines.functions(found[0])[0].endswith("program")


def test_a_moment_after_the_program_has_none_even_if_it_failed(python: PythonStacks) -> None:
    def fail(_: None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        python.run(fail, None)
    assert python.of_moment(inspect.currentframe()) is None


def test_a_table_writes_each_frame_once(lines: Lines) -> None:
    table = StackTable(lines)
    leaf = Frame("leaf", "a.py", 1, 2)
    below_one = table.number(table.number(None, Frame("one", "", 0, 0)), leaf)
    below_two = table.number(table.number(None, Frame("two", "", 0, 0)), leaf)
    assert below_one != below_two
    assert lines.frames.count(leaf) == 1
