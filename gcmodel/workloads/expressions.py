"""A worksheet of formulas, read anew in every round: scanner, parser, simplifier, evaluator.

Invariant: a cell's value is what Python computes from the same formula and variables. Texts,
tokens, trees, symbols and cells are heap objects; intermediate values were, until a profile showed
what they take (`docs/evidence/profiling.md`). A string in this heap has a length but no characters,
so the scanner looks at those in Python, beside the string for them.

    node       number             field 0       field 1
    token      its kind           its operand   the next token
    symbol     present value      its name      -
    constant   its value          -             -
    variable   0                  -             its symbol
    negation   code of "-"        the operand   -
    operation  code of "+ - *"    the left      the right
    cell       present value      its text      its simplified tree

A token's operand is a constant or a variable. Tokens die young, a cell lives until the next round,
and the symbols live to the end.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from string import ascii_lowercase

from gcmodel.collector.heap import Heap
from gcmodel.workloads.scopes import Scope, assign, copied, newest

FORMULAS = (
    "a * x * x + b * x + c",
    "(x + 0) * 1 - 0 * (y - z)",
    "-(a - b) * -(b - c) + 2 * 3 * 4",
    "((x + y) * (x + y) - (x - y) * (x - y)) * (1 + 0)",
    "1 + x * (1 + x * (1 + x * (1 + x)))",
    "(2 + 3) * (4 - 5) * (6 + 7) - 8 * -9",
    "a * (b + c * (x - y * (z + 12345678901234567890)))",
    "0 * a + 1 * b - 0 + --c",
)
ROUNDS = 700

# Kinds of token; the others are their own character. No token is spelled as white space.
NUMBER, NAME, END = "0", "a", "\n"
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def run(
    heap: Heap, formulas: Sequence[str] = FORMULAS, rounds: int = ROUNDS
) -> list[dict[str, int]]:
    """The value of each formula in each round. What is no formula is a ValueError.

    The variables are small letters; in round r the n-th letter, from 0 up, has the value r - n.
    """
    with Scope(heap):
        symbols = make_symbols(heap)
        heap.allocate_array(len(formulas))
        sheet = newest(heap)
        values = []
        for number in range(rounds):
            bind_variables(heap, symbols, number)
            values.append(calculate_sheet(heap, sheet, symbols, formulas))
        return values


# The worksheet.


def make_symbols(heap: Heap) -> int:
    """The slot of an array that has a symbol for each small letter."""
    heap.allocate_array(len(ascii_lowercase))
    symbols = newest(heap)
    for index, letter in enumerate(ascii_lowercase):
        with Scope(heap):
            heap.allocate_node(0)
            symbol = newest(heap)
            heap.allocate_string(len(letter))
            heap.write(symbol, 0, newest(heap))
            heap.write(symbols, index, symbol)
    return symbols


def bind_variables(heap: Heap, symbols: int, number: int) -> None:
    """Give all variables their values for round `number`."""
    for index in range(len(ascii_lowercase)):
        with Scope(heap):
            heap.read(symbols, index)
            heap.write_number(newest(heap), number - index)


def calculate_sheet(
    heap: Heap, sheet: int, symbols: int, formulas: Sequence[str]
) -> dict[str, int]:
    """Replace all cells by new ones; returns their values."""
    values = {}
    for index, formula in enumerate(formulas):
        with Scope(heap):
            cell = calculate_cell(heap, symbols, formula)
            heap.write(sheet, index, cell)
            values[formula] = heap.read_number(cell)
    return values


def calculate_cell(heap: Heap, symbols: int, formula: str) -> int:
    """The slot of a cell that holds the text, its simplified tree and its value."""
    with Scope(heap) as scope:
        heap.allocate_string(len(formula))
        text = newest(heap)
        tree = simplify(heap, parse(heap, scan(heap, symbols, formula)))
        heap.allocate_node(evaluate(heap, tree))
        cell = newest(heap)
        heap.write(cell, 0, text)
        heap.write(cell, 1, tree)
        return scope.keep(cell)


# The scanner.


def scan(heap: Heap, symbols: int, formula: str) -> int:
    """The slot of the first token of a list that ends with an END."""
    with Scope(heap) as scope:
        heap.allocate_node(ord(END))
        first = newest(heap)
        last = copied(heap, first)
        for spelling in re.findall(r"\d+|[a-z]|\S", formula):
            with Scope(heap):
                scan_token(heap, symbols, spelling, last)
                heap.allocate_node(ord(END))
                heap.write(last, 1, newest(heap))
                assign(heap, last, newest(heap))
        return scope.keep(first)


def scan_token(heap: Heap, symbols: int, spelling: str, token: int) -> None:
    """Make `token`, an END so far, the token that is spelled so."""
    if spelling.isdecimal():
        heap.write_number(token, ord(NUMBER))
        heap.write(token, 0, scan_number(heap, spelling))
    elif spelling in ascii_lowercase:
        heap.write_number(token, ord(NAME))
        heap.write(token, 0, scan_name(heap, symbols, spelling))
    else:
        heap.write_number(token, ord(spelling))


def scan_number(heap: Heap, spelling: str) -> int:
    """The slot of a constant. The digits are copied out of the text, and dropped."""
    with Scope(heap) as scope:
        heap.allocate_string(len(spelling))
        return scope.keep(make_constant(heap, int(spelling)))


def scan_name(heap: Heap, symbols: int, spelling: str) -> int:
    """The slot of a variable. The name is copied out of the text, looked up, and dropped."""
    with Scope(heap) as scope:
        heap.allocate_string(len(spelling))
        heap.read(symbols, ascii_lowercase.index(spelling))
        symbol = newest(heap)
        heap.allocate_node(0)
        heap.write(newest(heap), 1, symbol)
        return scope.keep(newest(heap))


# The parser. Its cursor is a slot that names the present token.


def parse(heap: Heap, tokens: int) -> int:
    """The slot of the tree of all tokens. Raises ValueError where they are no formula."""
    with Scope(heap) as scope:
        cursor = copied(heap, tokens)
        tree = parse_sum(heap, cursor)
        expect(heap, cursor, END)
        return scope.keep(tree)


def parse_sum(heap: Heap, cursor: int) -> int:
    """The slot of a tree: products, added and subtracted from left to right."""
    with Scope(heap) as scope:
        tree = parse_product(heap, cursor)
        while (symbol := kind_of(heap, cursor)) in ("+", "-"):
            advance(heap, cursor)
            tree = make_operation(heap, symbol, tree, parse_product(heap, cursor))
        return scope.keep(tree)


def parse_product(heap: Heap, cursor: int) -> int:
    """The slot of a tree: factors, multiplied from left to right."""
    with Scope(heap) as scope:
        tree = parse_factor(heap, cursor)
        while kind_of(heap, cursor) == "*":
            advance(heap, cursor)
            tree = make_operation(heap, "*", tree, parse_factor(heap, cursor))
        return scope.keep(tree)


def parse_factor(heap: Heap, cursor: int) -> int:
    """The slot of a tree: a constant, a variable, a negation or what stands in parentheses."""
    kind = kind_of(heap, cursor)
    with Scope(heap) as scope:
        if kind in (NUMBER, NAME):
            heap.read(cursor, 0)
            tree = newest(heap)
            advance(heap, cursor)
        elif kind == "-":
            advance(heap, cursor)
            tree = make_negation(heap, parse_factor(heap, cursor))
        else:
            expect(heap, cursor, "(")
            advance(heap, cursor)
            tree = parse_sum(heap, cursor)
            expect(heap, cursor, ")")
            advance(heap, cursor)
        return scope.keep(tree)


def kind_of(heap: Heap, cursor: int) -> str:
    """The kind of the present token."""
    return chr(heap.read_number(cursor))


def advance(heap: Heap, cursor: int) -> None:
    """Go on to the next token; there is one unless this is the END."""
    with Scope(heap):
        heap.read(cursor, 1)
        assign(heap, cursor, newest(heap))


def expect(heap: Heap, cursor: int, kind: str) -> None:
    """Raise ValueError unless the present token is of that kind."""
    found = kind_of(heap, cursor)
    if found != kind:
        raise ValueError(f"{found!r} stands where {kind!r} must")


# Trees.


def make_constant(heap: Heap, value: int) -> int:
    """The slot of a constant."""
    heap.allocate_node(value)
    return newest(heap)


def make_negation(heap: Heap, operand: int) -> int:
    """The slot of a tree that negates `operand`."""
    heap.allocate_node(ord("-"))
    heap.write(newest(heap), 0, operand)
    return newest(heap)


def make_operation(heap: Heap, symbol: str, left: int, right: int) -> int:
    """The slot of a tree that adds, subtracts or multiplies."""
    heap.allocate_node(ord(symbol))
    tree = newest(heap)
    heap.write(tree, 0, left)
    heap.write(tree, 1, right)
    return tree


def child(heap: Heap, tree: int, field: int) -> int | None:
    """The slot of what the field refers to, or None."""
    return None if heap.read(tree, field) is None else newest(heap)


def constant_value(heap: Heap, tree: int) -> int | None:
    """The value of a constant, or None for any other tree."""
    with Scope(heap):
        if heap.read(tree, 0) is None and heap.read(tree, 1) is None:
            return heap.read_number(tree)
        return None


# The simplifier.


def simplify(heap: Heap, tree: int) -> int:
    """The slot of a tree of the same value whatever the variables are, with fewer nodes if any."""
    with Scope(heap) as scope:
        left, right = child(heap, tree, 0), child(heap, tree, 1)
        if left is None:
            return scope.keep(tree)
        left = simplify(heap, left)
        if right is None:
            return scope.keep(simplify_negation(heap, left))
        right = simplify(heap, right)
        symbol = chr(heap.read_number(tree))
        return scope.keep(simplify_operation(heap, symbol, left, right))


def simplify_negation(heap: Heap, operand: int) -> int:
    """The slot of the negation of a tree that is simplified itself."""
    value = constant_value(heap, operand)
    return make_negation(heap, operand) if value is None else make_constant(heap, -value)


def simplify_operation(heap: Heap, symbol: str, left: int, right: int) -> int:
    """The slot of an operation on trees that are simplified themselves."""
    match constant_value(heap, left), symbol, constant_value(heap, right):
        case int() as a, _, int() as b:
            return make_constant(heap, OPERATIONS[symbol](a, b))
        case (_, "+" | "-", 0) | (_, "*", 1):
            return left
        case (0, "+", _) | (1, "*", _):
            return right
        case (0, "*", _) | (_, "*", 0):
            return make_constant(heap, 0)
        case _:
            return make_operation(heap, symbol, left, right)


# The evaluator.


def evaluate(heap: Heap, tree: int) -> int:
    """The value of the tree while the variables are what they are."""
    with Scope(heap):
        left, right = child(heap, tree, 0), child(heap, tree, 1)
        if left is None:
            # A variable's value is its symbol's number, a constant's its own.
            return heap.read_number(tree if right is None else right)
        value = evaluate(heap, left)
        if right is None:
            return -value
        return OPERATIONS[chr(heap.read_number(tree))](value, evaluate(heap, right))
