"""Mutations of gcmodel: each changes one part of one statement.

A mutant's name consists of its module, its function, the changed line with the change in brackets,
and a number if there are several of that name. So an edit elsewhere does not rename it.
Annotations, decorators and checks against misuse (`raise`, `assert`, an `if` with only a `raise`)
are not mutated, since no session misuses gcmodel.

Why not mutmut or Cosmic Ray: neither leaves out a statement or an operand, and both are made to run
tests. The mutations of mutmut are not a public interface. Four fifths of Cosmic Ray's mutations
replace an operator by every other operator.
"""

from __future__ import annotations

import ast
import copy
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_loader
from itertools import takewhile
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from typing_extensions import override

SWAPPED = """
Lt LtE GtE, LtE Lt Gt, Gt GtE LtE, GtE Gt Lt, Eq NotEq, NotEq Eq, Is IsNot, IsNot Is, In NotIn,
NotIn In, Add Sub, Sub Add, Mult FloorDiv, FloorDiv Mult, Div Mult, Mod FloorDiv, Pow Mult,
LShift RShift, RShift LShift, BitAnd BitOr, BitOr BitAnd, BitXor BitOr, And Or, Or And
"""
OPERATORS = {first: others for first, *others in map(str.split, SWAPPED.split(","))}
"""The replacements of each operator."""
ARGUMENTS_MAX = 2
"""A call with at most this many arguments may be replaced by one of them: `min(a, b)` by `a`."""
WORDS = re.compile(r"\w+|\s+|[][(){}:,]|[^][(){}:,\w\s]+")
UNMUTATED_FIELDS = {"annotation", "returns", "decorator_list"}
SCOPES = ast.FunctionDef | ast.ClassDef
Nodes = Iterator[ast.AST]


def _other_operators(node: ast.AST) -> Nodes:
    yield from (getattr(ast, other)() for other in OPERATORS.get(type(node).__name__, ()))


def _other_constants(node: ast.Constant) -> Nodes:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield from (ast.Constant(node.value + step) for step in (1, -1))


def _fewer_arguments(node: ast.Call) -> Nodes:
    """One argument instead of the call, or the call without one named argument."""
    if isinstance(node.func, ast.Name) and not node.keywords and len(node.args) <= ARGUMENTS_MAX:
        yield from (each for each in node.args if not isinstance(each, ast.Starred))
    for left_out in node.keywords:
        shorter = copy.copy(node)
        shorter.keywords = [each for each in node.keywords if each is not left_out]
        yield shorter


def _left_out(node: ast.stmt) -> Nodes:
    """Nothing, if no name is left without a value."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    names = isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) for to in node.targets)
    returns = isinstance(node, ast.Return) and node.value is not None
    if not (is_docstring or names or returns):
        yield ast.Pass()


def _negated(_: ast.AST, test: ast.expr) -> Nodes:
    if not isinstance(test, ast.Compare | ast.UnaryOp):  # Another mutation negates these.
        yield ast.UnaryOp(ast.Not(), test)


def _irrelevant(connection: ast.BoolOp, _: ast.expr) -> Nodes:
    """A constant with which the other operands decide."""
    yield ast.Constant(isinstance(connection.op, ast.And))


def _none(_: ast.AST, value: ast.expr) -> Nodes:
    if not isinstance(value, ast.Constant | ast.IfExp):  # Other mutations change these.
        yield ast.Constant(None)


LEFT_OUT = (
    ast.Expr | ast.Assign | ast.AugAssign | ast.Delete | ast.Return | ast.Break | ast.Continue
)
OF_TYPES: tuple[tuple[Any, Callable[[Any], Nodes]], ...] = (
    (ast.cmpop | ast.operator | ast.boolop, _other_operators),
    (ast.UnaryOp, lambda node: iter([node.operand])),
    (ast.Constant, _other_constants),
    (ast.Call, _fewer_arguments),
    (ast.IfExp, lambda node: iter([node.body, node.orelse])),
    (LEFT_OUT, _left_out),
)
"""The replacements of a node, by its type."""
IN_FIELDS: tuple[tuple[Any, str, Callable[[Any, Any], Nodes]], ...] = (
    (ast.If | ast.While | ast.IfExp, "test", _negated),
    (ast.comprehension, "ifs", _negated),
    (ast.BoolOp, "values", _irrelevant),
    (ast.For, "iter", lambda _, iterated: iter([ast.Tuple([], ast.Load())])),
    (ast.Return, "value", _none),
)
"""The replacements of a node, by the type of its parent and the field in it."""


def mutants_of(module: str) -> Iterator[tuple[str, ast.Module]]:
    """Each mutant of a module, by its name. The tree changes when the next one is made."""
    tree = ast.parse(_source(module).read_bytes())
    times: Counter[str] = Counter()
    for function, statement, holder, key, after in _changes(tree, "", tree):
        before, text = holder[key], ast.unparse(statement)
        holder[key] = after
        change = _difference(text, ast.unparse(after if before is statement else statement))
        name = f"{module} {function or '<module>'}: {change}"
        times[name] += 1
        yield f"{name} #{times[name]}" if times[name] > 1 else name, tree
        holder[key] = before


def _changes(
    node: ast.AST, function: str, statement: ast.AST
) -> Iterator[tuple[str, ast.AST, Any, Any, ast.AST]]:
    """The changes below a node: function, statement, list or dict, key in it, replacement."""
    for field, held in ast.iter_fields(node):
        if field in UNMUTATED_FIELDS:
            continue
        holder: Any = held if isinstance(held, list) else vars(node)
        keys: Iterable[Any] = range(len(held)) if isinstance(held, list) else [field]
        for key in keys:
            child = holder[key]
            if not isinstance(child, ast.AST) or _refuses(child):
                continue
            name = [child.name] if isinstance(child, SCOPES) else []
            inside = ".".join([function, *name] if function else name)
            of = child if isinstance(child, ast.stmt) else statement
            for after in _instead(node, field, child):
                yield inside, of, holder, key, after
            yield from _changes(child, inside, of)


def _refuses(node: ast.AST) -> bool:
    """Whether the node only checks for misuse."""
    only = node.body[0] if isinstance(node, ast.If) and len(node.body) == 1 else node
    return isinstance(only, ast.Raise | ast.Assert)


def _instead(parent: ast.AST, field: str, node: ast.AST) -> Nodes:
    for types, mutation in OF_TYPES:
        if isinstance(node, types):
            yield from mutation(node)
    for types, name, mutation_in in IN_FIELDS:
        if isinstance(parent, types) and field == name:
            yield from mutation_in(parent, node)


def _difference(before: str, after: str) -> str:
    """The first line that differs, with the words that differ in brackets."""
    lines = zip(before.splitlines(), after.splitlines(), strict=True)
    old, new = next(map(WORDS.findall, pair) for pair in lines if pair[0] != pair[1])
    start = _beginning(old, new)
    end = _beginning(old[start:][::-1], new[start:][::-1])
    were, are = old[start : len(old) - end], new[start : len(new) - end]
    return "".join([*old[:start], "[", *were, " -> ", *are, "]", *old[len(old) - end :]]).strip()


def _beginning(these: Sequence[str], those: Sequence[str]) -> int:
    """The number of words at the start that are equal."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(these, those, strict=False))])


def _source(module: str) -> Path:
    """The source of a module of gcmodel, found without importing it."""
    spec = find_spec("gcmodel")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*module.split(".")).with_suffix(".py")


def install(name: str) -> None:
    """Import the mutant of that name instead of its module from now on.

    Raises KeyError if there is no such mutant.
    """
    module = name.partition(" ")[0]
    for each, tree in mutants_of(module):
        if each == name:
            sys.meta_path.insert(0, _MutantLoader(f"gcmodel.{module}", _source(module), tree))
            return
    raise KeyError(name)


class _MutantLoader(SourceFileLoader):
    """Finds one module, and loads a tree instead of its source."""

    def __init__(self, fullname: str, path: Path, tree: ast.Module) -> None:
        super().__init__(fullname, str(path))
        self._tree = ast.fix_missing_locations(tree)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname == self.name else None

    @override
    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._tree, self.path, "exec", dont_inherit=True)
        return code
