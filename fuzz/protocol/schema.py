"""A JSON Schema (2020-12) of the lines of the protocol, made from the classes.

`gcfuzz schema` prints it. Invariant: gcfuzz accepts no line that the schema refuses. It refuses
more itself, since most of its rules relate several keys or lines.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs

from fuzz.protocol.actions import ACTIONS, Action, Bound
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.contract_problems import KINDS
from fuzz.protocol.counting import WAYS, Way
from fuzz.protocol.counting.limits import Limits
from fuzz.protocol.layout import Layout
from fuzz.protocol.observation import FIELDS, Observation
from fuzz.protocol.trace import VERSION, Header

Json: TypeAlias = dict[str, Any]
TYPES = {int: "integer", bool: "boolean", str: "string"}
TAGGED: dict[type, tuple[str, Mapping[str, type]]] = {Action: ("do", ACTIONS), Way: ("by", WAYS)}
"""Classes whose subclasses are named by a key: that key, and the subclasses by name."""
NAMES: dict[tuple[type, str], Json] = {
    (Contract, "actions"): {"items": {"enum": [*ACTIONS]}, "minItems": 1},
    (Contract, "observes"): {"items": {"enum": [*FIELDS]}},
    (Header, "excluded"): {"items": {"enum": [*FIELDS]}},
    (Layout, "kinds"): {"propertyNames": {"enum": [*KINDS]}},
}
"""Fields that hold names: what their types do not say."""


def schema() -> Json:
    """The schema of any line; `$defs` has those of each kind of line and each class."""
    definitions = _Definitions()
    header, contract, action, observation = map(
        definitions.schema_of, (Header, Contract, Action, Observation)
    )
    answer = _closed_object({"contract": contract}, ["contract"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gcfuzz:protocol:{VERSION}",
        "title": f"gcfuzz's protocol, version {VERSION}",
        "description": "A line of a conversation or a trace file.",
        **_if({"required": ["gcfuzz"]}, header),
        "else": {
            **_if({"required": ["do"]}, action),
            "else": {**_if({"required": ["contract"]}, answer), "else": observation},
        },
        "$defs": definitions.by_name,
    }


class _Definitions:
    """The schemas of classes, which grow as fields need them."""

    def __init__(self) -> None:
        self.by_name: Json = {}

    def schema_of(self, kind: Any) -> Json:  # noqa: ANN401 - a type
        """The schema of a type; that of a class is a reference to its definition."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is None:
            return {"type": TYPES[kind]} if kind in TYPES else self._reference_to(kind)
        if origin is Literal:
            return {"enum": [*arguments]}
        if origin is Annotated:
            limited = self.schema_of(arguments[0])
            limited.get("items", limited).update(_limits(arguments[1]))
            return limited
        if origin in (tuple, list):
            return {"type": "array", "items": self.schema_of(arguments[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.schema_of(arguments[1])}
        assert origin in (UnionType, Union), kind
        [other] = (self.schema_of(argument) for argument in arguments if argument is not NoneType)
        return _or_null(other)

    def _reference_to(self, kind: type) -> Json:
        name = kind.__name__
        if name not in self.by_name:
            self.by_name[name] = {}  # Its place, before those that it refers to.
            self.by_name[name] = self._definition(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _definition(self, kind: type) -> Json:
        if kind not in TAGGED:
            return self._object(kind, {})
        tag, classes = TAGGED[kind]
        cases = []
        for name, case in classes.items():
            has_name = {"properties": {tag: {"const": name}}, "required": [tag]}
            self.by_name[case.__name__] = self._object(case, {tag: {"const": name}})
            cases.append(_if(has_name, {"$ref": f"#/$defs/{case.__name__}"}))
        return {
            "type": "object",
            "properties": {tag: {"enum": [*classes]}},
            "required": [tag],
            "allOf": cases,
        }

    def _object(self, kind: type, properties: Json) -> Json:
        hints, descriptions = get_type_hints(kind, include_extras=True), _descriptions(kind)
        required = [*properties]
        for field in attrs.fields(kind):
            value = self.schema_of(hints[field.name]) | NAMES.get((kind, field.name), {})
            if field.name in descriptions:
                value["description"] = descriptions[field.name]
            if field.default is attrs.NOTHING:
                required.append(field.name)
            elif hasattr(field.default, "factory"):
                value["default"] = field.default.factory()
            elif not attrs.has(type(field.default)):
                value["default"] = field.default
            properties[field.name] = value
        return {"description": inspect.getdoc(kind), **_closed_object(properties, required)}


def _if(condition: Json, then: Json) -> Json:
    """Unlike `anyOf`, this makes a validator say what is wrong with one kind of line."""
    return {"if": condition, "then": then}


def _closed_object(properties: Json, required: list[str]) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _or_null(value: Json) -> Json:
    if "type" not in value:
        return {"anyOf": [value, {"type": "null"}]}
    return value | {"type": [value["type"], "null"]}


def _limits(bound: Bound | Limits) -> Json:
    """What the annotation of a number says without a contract; nothing legal is below 0 then."""
    if not isinstance(bound, Range | Limits):
        return {"minimum": getattr(bound, "minimum", 0)}
    return {"minimum": bound.minimum, "maximum": bound.maximum}


def _descriptions(kind: type) -> dict[str, str]:
    """The docstrings of a class's fields, with those that it inherits."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        found |= _descriptions_in(base.__module__).get(base.__name__, {})
    return found


@cache
def _descriptions_in(module: str) -> dict[str, dict[str, str]]:
    """The docstrings of fields in a module, by class and field. Only the source has them."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        node.name: {
            field.target.id: inspect.cleandoc(text)
            for field, after in pairwise(node.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if isinstance(text := after.value.value, str)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
