"""A worksheet of formulas, read again in every round: scanner, parser, simplifier, evaluator.

Invariant: a cell's value is what Python computes from the same formula and variables. Texts,
tokens, trees, symbols and cells are heap objects. A string in this heap has a length but no
characters, so the scanner reads those in Python, beside the string for them.

    node       number             field 0       field 1
    token      its kind           its operand   the next token
    symbol     current value      its name      -
    constant   its value          -             -
    variable   0                  -             its symbol
    negation   code of "-"        the operand   -
    operation  code of "+ - *"    the left      the right
    cell       current value      its text      its simplified tree

A token's operand is a constant or a variable. Tokens die young, a cell lives until the next round,
and the symbols live to the end. A function that makes a heap object returns its slot.
"""

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

# Kinds of token. Any other kind is its own character, which is never white space.
NUMBER, NAME, END = "0", "a", "\n"
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def run(
    heap: Heap, formulas: Sequence[str] = FORMULAS, rounds: int = ROUNDS
) -> list[dict[str, int]]:
    """The value of each formula in each round. Raises ValueError for a text that is not one.

    The variables are small letters. In round r the n-th letter, from 0 up, has the value r - n.
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
    """Make an array with a symbol for each small letter."""
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
    """Set all variables to their values for round `number`."""
    for index in range(len(ascii_lowercase)):
        with Scope(heap):
            heap.read(symbols, index)
            heap.write_number(newest(heap), number - index)


def calculate_sheet(
    heap: Heap, sheet: int, symbols: int, formulas: Sequence[str]
) -> dict[str, int]:
    """Replace all cells by new ones; return their values."""
    values = {}
    for index, formula in enumerate(formulas):
        with Scope(heap):
            cell = calculate_cell(heap, symbols, formula)
            heap.write(sheet, index, cell)
            values[formula] = heap.read_number(cell)
    return values


def calculate_cell(heap: Heap, symbols: int, formula: str) -> int:
    """Make a cell with the text, its simplified tree and its value."""
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
    """Make a list of tokens that ends with an END; return the first."""
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
    """Change `token` from an END to the token of that spelling."""
    if spelling.isdecimal():
        heap.write_number(token, ord(NUMBER))
        heap.write(token, 0, scan_number(heap, spelling))
    elif spelling in ascii_lowercase:
        heap.write_number(token, ord(NAME))
        heap.write(token, 0, scan_name(heap, symbols, spelling))
    else:
        heap.write_number(token, ord(spelling))


def scan_number(heap: Heap, spelling: str) -> int:
    """Make a constant. The digits are copied out of the text, and dropped."""
    with Scope(heap) as scope:
        heap.allocate_string(len(spelling))
        return scope.keep(make_constant(heap, int(spelling)))


def scan_name(heap: Heap, symbols: int, spelling: str) -> int:
    """Make a variable. The name is copied out of the text, looked up, and dropped."""
    with Scope(heap) as scope:
        heap.allocate_string(len(spelling))
        heap.read(symbols, ascii_lowercase.index(spelling))
        symbol = newest(heap)
        heap.allocate_node(0)
        heap.write(newest(heap), 1, symbol)
        return scope.keep(newest(heap))


# The parser. Its cursor is the slot of the current token.


def parse(heap: Heap, tokens: int) -> int:
    """Make the tree of all tokens. Raises ValueError if they are not a formula."""
    with Scope(heap) as scope:
        cursor = copied(heap, tokens)
        tree = parse_sum(heap, cursor)
        expect(heap, cursor, END)
        return scope.keep(tree)


def parse_sum(heap: Heap, cursor: int) -> int:
    """Parse products, added and subtracted from left to right."""
    with Scope(heap) as scope:
        tree = parse_product(heap, cursor)
        while (symbol := kind_of(heap, cursor)) in ("+", "-"):
            advance(heap, cursor)
            tree = make_operation(heap, symbol, tree, parse_product(heap, cursor))
        return scope.keep(tree)


def parse_product(heap: Heap, cursor: int) -> int:
    """Parse factors, multiplied from left to right."""
    with Scope(heap) as scope:
        tree = parse_factor(heap, cursor)
        while kind_of(heap, cursor) == "*":
            advance(heap, cursor)
            tree = make_operation(heap, "*", tree, parse_factor(heap, cursor))
        return scope.keep(tree)


def parse_factor(heap: Heap, cursor: int) -> int:
    """Parse a constant, a variable, a negation, or a sum in parentheses."""
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
    """The kind of the current token."""
    return chr(heap.read_number(cursor))


def advance(heap: Heap, cursor: int) -> None:
    """Move to the next token. The END has none."""
    with Scope(heap):
        heap.read(cursor, 1)
        assign(heap, cursor, newest(heap))


def expect(heap: Heap, cursor: int, kind: str) -> None:
    """Raise ValueError unless the current token is of that kind."""
    found = kind_of(heap, cursor)
    if found != kind:
        raise ValueError(f"found {found!r}, expected {kind!r}")


# Trees.


def make_constant(heap: Heap, value: int) -> int:
    """Make a constant."""
    heap.allocate_node(value)
    return newest(heap)


def make_negation(heap: Heap, operand: int) -> int:
    """Make a tree that negates `operand`."""
    heap.allocate_node(ord("-"))
    heap.write(newest(heap), 0, operand)
    return newest(heap)


def make_operation(heap: Heap, symbol: str, left: int, right: int) -> int:
    """Make a tree that adds, subtracts or multiplies."""
    heap.allocate_node(ord(symbol))
    tree = newest(heap)
    heap.write(tree, 0, left)
    heap.write(tree, 1, right)
    return tree


def child(heap: Heap, tree: int, field: int) -> int | None:
    """The slot of the object that the field refers to, or None."""
    return None if heap.read(tree, field) is None else newest(heap)


def constant_value(heap: Heap, tree: int) -> int | None:
    """The value of a constant, or None for any other tree."""
    with Scope(heap):
        if heap.read(tree, 0) is None and heap.read(tree, 1) is None:
            return heap.read_number(tree)
        return None


# The simplifier.


def simplify(heap: Heap, tree: int) -> int:
    """Return an equal tree, for any variables, with fewer nodes if possible."""
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
    """Negate a simplified tree."""
    value = constant_value(heap, operand)
    return make_negation(heap, operand) if value is None else make_constant(heap, -value)


def simplify_operation(heap: Heap, symbol: str, left: int, right: int) -> int:
    """Combine two simplified trees."""
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
    """The value of the tree for the current variables."""
    with Scope(heap):
        left, right = child(heap, tree, 0), child(heap, tree, 1)
        if left is None:
            # A variable's value is its symbol's number, a constant's its own.
            return heap.read_number(tree if right is None else right)
        value = evaluate(heap, left)
        if right is None:
            return -value
        return OPERATIONS[chr(heap.read_number(tree))](value, evaluate(heap, right))
