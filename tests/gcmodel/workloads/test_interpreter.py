"""The machine runs its programs right."""

import itertools

import pytest

from gcmodel import Heap
from gcmodel.workloads.interpreter import FIBONACCI, SIEVE, assemble, run, run_program


def primes_below(limit: int) -> list[int]:
    return [n for n in range(2, limit) if all(n % divisor for divisor in range(2, n))]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 50, 122])
def test_the_sieve_writes_the_primes_below_its_limit(heap: Heap, limit: int) -> None:
    assert run_program(heap, SIEVE, limit) == primes_below(limit)


@pytest.mark.slow
def test_each_fibonacci_number_but_two_is_the_sum_of_the_two_before_it(heap: Heap) -> None:
    numbers = [run_program(heap, FIBONACCI, n)[0] for n in range(13)]
    sums = [a + b for a, b in itertools.pairwise(numbers[:-1])]
    assert numbers == [0, 1, *sums]


def test_a_run_is_of_both_programs(heap: Heap) -> None:
    result = run(heap, sieve_limit=10, fibonacci_of=10)
    assert result == ([2, 3, 5, 7], 55)


@pytest.mark.parametrize(
    ("operation", "result"), [("add", 14), ("subtract", -4), ("multiply", 45), ("less", 1)]
)
def test_an_operation_acts_upon_two_registers(heap: Heap, operation: str, result: int) -> None:
    program = f"put 1 9\n {operation} 2 0 1\n write 2\n leave 2"
    assert run_program(heap, program, 5) == [result]


@pytest.mark.parametrize(
    ("jump", "is_set", "written"),
    [("when", 0, [1]), ("when", 1, []), ("unless", 0, []), ("unless", 1, [1])],
)
def test_zero_is_false(heap: Heap, jump: str, is_set: int, written: list[int]) -> None:
    program = f"{jump} 0 end\n put 1 1\n write 1\n end: leave 0"
    assert run_program(heap, program, is_set) == written


def test_an_item_that_was_never_set_is_false(heap: Heap) -> None:
    program = "array 1 0\n put 2 0\n item 3 1 2\n when 3 end\n write 0\n end: leave 0"
    assert run_program(heap, program, 1) == [1]


def test_a_call_leaves_the_callers_registers_as_they_were(heap: Heap) -> None:
    program = """
            put     1 2
            call    2 one 0
            write   1
            write   2
            leave   0
    one:    put     1 1
            leave   1
    """
    assert run_program(heap, program, 9) == [2, 1]


def test_a_label_is_the_index_of_the_instruction_behind_it() -> None:
    code = assemble("start: jump end  # a comment\n\n jump start\n middle:\n end: jump middle")
    assert [operands for _, operands in code] == [(2,), (0,), (2,)]


def test_an_unknown_label_is_an_error() -> None:
    with pytest.raises(KeyError):
        assemble("jump nowhere")
