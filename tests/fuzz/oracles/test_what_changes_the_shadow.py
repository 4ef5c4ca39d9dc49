"""An oracle changes the shadow only by the methods that FOUND_OUT names."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import fuzz.oracles
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import FOUND_OUT

ASKED = {
    "filled",
    "graph",
    "living",
    "members",
    "names",
    "object_of",
    "reachable",
    "reachable_with",
    "with_kept_once",
}
"""The questions of a shadow, which change nothing that a later one could see."""
SOURCES = sorted(Path(str(fuzz.oracles.__file__)).parent.glob("*.py"))


def is_of_shadow(node: ast.expr) -> bool:
    """Whether an expression is a shadow of an oracle, or a part of one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr == "_shadow":
            return True
        node = node.value
    return False


def nodes() -> Iterator[ast.AST]:
    for path in SOURCES:
        yield from ast.walk(ast.parse(path.read_text()))


def test_oracles_call_only_questions_and_the_named_methods_of_a_shadow() -> None:
    called = {
        node.func.attr
        for node in nodes()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr == "_shadow"
    }
    assert called & {name for name, _ in inspect.getmembers(Shadow)} == called
    assert called <= ASKED | {*FOUND_OUT}
    assert called >= {*FOUND_OUT}


def test_oracles_assign_to_no_part_of_a_shadow() -> None:
    targets = [
        target
        for node in nodes()
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete)
        for target in (node.targets if not isinstance(node, ast.AugAssign) else [node.target])
        if isinstance(target, ast.Attribute | ast.Subscript)
    ]
    assert targets
    assert not [ast.unparse(each) for each in targets if is_of_shadow(each.value)]
