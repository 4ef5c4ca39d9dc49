"""Formulas have the values that Python gives them, and simplifying changes none."""

import random
from string import ascii_lowercase

import pytest

from gcmodel import Configuration, Heap
from gcmodel.workloads.expressions import (
    FORMULAS,
    bind_variables,
    evaluate,
    make_symbols,
    parse,
    run,
    scan,
    simplify,
)


def python_value(formula: str, number: int) -> int:
    """Python's value of the formula in round `number`."""
    variables = {letter: number - index for index, letter in enumerate(ascii_lowercase)}
    value: int = eval(formula, {"__builtins__": {}}, variables)
    return value


def random_formula(generator: random.Random, depth: int) -> str:
    if depth == 0:
        return generator.choice(["0", "1", "2", "37", "x", "y", "a"])
    left = random_formula(generator, generator.randrange(depth))
    right = random_formula(generator, generator.randrange(depth))
    shape = generator.choice(["{} + {}", "{}-{}", "{} * {}", "({} - {})", "-{}*({})", "(({}))+-{}"])
    return shape.format(left, right)


@pytest.mark.slow
def test_the_values_are_pythons(heap: Heap) -> None:
    generator = random.Random(1)
    formulas = [*FORMULAS, *(random_formula(generator, 8) for _ in range(300))]
    assert run(heap, formulas, 3) == [
        {formula: python_value(formula, number) for formula in formulas} for number in range(3)
    ]


def test_a_formula_that_is_not_simplified_has_the_same_value(heap: Heap) -> None:
    symbols = make_symbols(heap)
    bind_variables(heap, symbols, 9)
    formula = "(x + 0) * 1 - 0 * (y - z)"
    tree = parse(heap, scan(heap, symbols, formula))
    assert evaluate(heap, tree) == python_value(formula, 9)


def tree(formula: str, simplified: bool) -> list[list[int]]:
    """The graph of a formula's tree, and of the symbols to which it refers."""
    heap = Heap(Configuration(prebuilt_nodes=0, prebuilt_arrays=0))
    root = parse(heap, scan(heap, make_symbols(heap), formula))
    if simplified:
        root = simplify(heap, root)
    heap.roots[:] = [heap.roots[root]]
    return heap.walk()


@pytest.mark.parametrize(
    ("formula", "simpler"),
    [
        *[("x + 0", "x"), ("0 + x", "x"), ("x - 0", "x"), ("x * 1", "x"), ("1 * x", "x")],
        *[("x * 0", "0"), ("0 * x", "0"), ("2 * 3 + 4", "10"), ("2 - 3 - (0 - 5)", "4")],
        *[("x + (y - y * 0) * 1", "x + y"), ("x * (1 + 1)", "x * 2"), ("-(1 - 3) * x", "2 * x")],
        *[(each, each) for each in ("x", "7", "0 - x", "-x", "x + 1", "2 * x", "x - y * z")],
    ],
)
def test_a_simplified_formula_is_the_tree_of_the_simpler_one(formula: str, simpler: str) -> None:
    assert tree(formula, simplified=True) == tree(simpler, simplified=False)


@pytest.mark.parametrize(
    "formula", ["", "1 +", "* 2", "(x", "x)", "()", "1 2", "xy", "X", "x / y", "1 . 2", "²"]
)
def test_a_text_that_is_not_a_formula_is_an_error(heap: Heap, formula: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        run(heap, [formula], 1)
