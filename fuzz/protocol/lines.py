"""Lines of JSON: how plain data is written to a line and read from it.

Trace files and pipes use the same lines. Invariant: data that is read has exactly the declared
types (1.5 and true are not integers, and an unknown key is a mistake). Anything else is a
ValueError that says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain
from json.scanner import make_scanner
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

from fuzz.problems import did_you_mean
from fuzz.protocol.actions import ACTIONS, NAMES, Action
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import WAYS, Way
from fuzz.protocol.observation import Observation

if TYPE_CHECKING:
    import cattrs

T = TypeVar("T")

COUNTS = Range(0, 2**62)
"""What a target may count in one action."""
QUOTED_MAX = 40
"""The most characters of unreadable input in a message."""


def quoted(value: object) -> str:
    """The beginning of a value, as in a trace."""
    try:
        text = json.dumps(value, default=repr)
    except RecursionError:  # A value that could be read may be too deep to be written.
        return "…"
    return text if len(text) <= QUOTED_MAX else text[:QUOTED_MAX] + "…"


TYPES = {int: "an integer", bool: "true or false", str: "a string"}


def _exactly(kind: type) -> Callable[[object, object], object]:
    """A structuring hook that takes a JSON value as it is."""

    def structure(value: object, _: object) -> object:
        if type(value) is not kind:
            raise _WrongValueError(f"must be {TYPES[kind]}, and is {quoted(value)}")
        return value

    return structure


def _is_sequence(kind: object) -> bool:
    return get_origin(kind) in (list, tuple)


def _sequence(
    kind: Any,  # noqa: ANN401 - any type
    converter: cattrs.BaseConverter,
) -> Callable[[object, object], object]:
    """A structuring hook for a list or tuple of one type, which a string is not."""
    from cattrs.cols import list_structure_factory

    item, build = get_args(kind)[0], get_origin(kind)
    structure_items = list_structure_factory(list[item], converter)  # type: ignore[valid-type]

    def structure(value: object, _: object) -> object:
        if not isinstance(value, list):
            raise _WrongValueError(f"must be a list, and is {quoted(value)}")
        if item is int and set(map(type, value)) <= {int}:
            return build(value)
        return build(structure_items(value, kind))

    return structure


class _WrongValueError(ValueError):
    """A value that is not legal. The message lacks its place."""


def _is_literal(kind: object) -> bool:
    return get_origin(kind) is Literal


def _literal(kind: object) -> Callable[[object, object], object]:
    """A structuring hook for one of a few values."""
    choices = get_args(kind)

    def structure(value: object, _: object) -> object:
        if value not in choices:
            legal = f"; it must be one of {', '.join(map(str, choices))}"
            like = did_you_mean(str(value), choices)
            raise _WrongValueError(f"is {quoted(value)}{like or legal}")
        return value

    return structure


@cache
def _converter() -> cattrs.Converter:
    """Made when it is first needed: most workers read and write no lines."""
    import cattrs

    converter = cattrs.Converter(
        forbid_extra_keys=True, omit_if_default=True, unstruct_collection_overrides={tuple: list}
    )
    for kind in TYPES:
        converter.register_structure_hook(kind, _exactly(kind))
    converter.register_structure_hook_factory(_is_sequence, _sequence)
    converter.register_structure_hook_factory(_is_literal, _literal)
    converter.register_structure_hook_func(lambda kind: kind is Way, _way_of)
    converter.register_unstructure_hook_func(
        lambda kind: kind is Way,
        lambda way: {"by": way.by, **converter.unstructure(way)} if isinstance(way, Way) else way,
    )
    converter.register_structure_hook_func(lambda kind: kind is Action, _action_of)
    converter.register_unstructure_hook_func(lambda kind: kind is Action, action_to_data)
    return converter


def _way_of(data: object, _: object) -> Way:
    if not isinstance(data, dict):
        raise _WrongValueError("must be a JSON object")
    keys = dict(data)
    by = keys.pop("by", None)
    if not isinstance(by, str) or by not in WAYS:
        like = did_you_mean(by, WAYS) if isinstance(by, str) else ""
        legal = f"; it must be by one of {', '.join(WAYS)}"
        raise _WrongValueError(f"is by {quoted(by)}{like or legal}")
    return _converter().structure(keys, WAYS[by])


def _action_of(data: object, _: object) -> Action:
    try:
        return action_from_data(data)
    except ValueError as problem:
        raise _WrongValueError(f"is not an action: {problem}") from problem


def structured(data: object, kind: type[T]) -> T:
    """Data of that class. Raises ValueError."""
    try:
        return _converter().structure(data, kind)
    except Exception as problem:
        import cattrs

        mistakes = cattrs.transform_error(problem, format_exception=_message_of)
        # A missing key may be a misspelt one.
        mistakes.sort(key=lambda mistake: not mistake.startswith(UNKNOWN))
        raise ValueError("; ".join(map(_with_place, mistakes))) from problem


SUBJECT, UNKNOWN, LIKE, AT = "it ", "the unknown key", "; did you mean ", " @ $"
"""Parts of messages: two beginnings to which `_with_place` adds the place, the beginning of a
suggestion, and what cattrs writes before a place."""


def _message_of(problem: BaseException, kind: type | None) -> str:
    """What is wrong, without the place."""
    import cattrs

    if isinstance(problem, _WrongValueError):
        return f"{SUBJECT}{problem}"
    if isinstance(problem, KeyError):
        return f"{SUBJECT}is missing"
    if isinstance(problem, AttributeError | TypeError) and any(map(attrs.has, _alternatives(kind))):
        return f"{SUBJECT}must be an object"
    if isinstance(problem, cattrs.ForbiddenExtraKeysError):
        keys = sorted(problem.extra_fields)
        known = [field.name for field in attrs.fields(problem.cl)]
        like = did_you_mean(keys[0], known) if len(keys) == 1 else ""
        return f"{UNKNOWN}{'s' if len(keys) > 1 else ''} {', '.join(keys)}{like}"
    # The annotation of an annotated type would only confuse the reader.
    return cattrs.v.format_exception(problem, getattr(kind, "__origin__", kind))


def _with_place(mistake: str) -> str:
    """A message of cattrs, `what @ $.where`, as a sentence."""
    what, _, where = mistake.rpartition(AT)
    name = where.removeprefix(".")
    if what.startswith(SUBJECT):
        return f"{name or 'it'} {what.removeprefix(SUBJECT)}"
    if what.startswith(UNKNOWN):
        what, mark, like = what.partition(LIKE)
        return f"{what}{f' in {name}' if name else ''}{mark}{like}"
    return mistake


PLAIN = {int, bool, str, type(None), list[int], list[list[int]]}


def _alternatives(hint: Any) -> frozenset[Any]:  # noqa: ANN401 - a type, whichever
    return frozenset(get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,))


@cache
def _plain_types(kind: Any) -> Mapping[str, frozenset[type]]:  # noqa: ANN401 - a class
    """The types that a field may have, for each field of numbers, texts, rows or None."""
    hints = get_type_hints(kind)
    names = [field.name for field in attrs.fields(kind)]
    types = {name: _alternatives(hints[name]) for name in names}
    return {name: alternatives for name, alternatives in types.items() if alternatives <= PLAIN}


def _type_of(items: list[Any]) -> type:
    """The type of a list of numbers, or of rows of numbers; `list` if it is another one."""
    types = set(map(type, items))
    if types == {int}:
        return list[int]
    if types == {list} and set(map(type, chain.from_iterable(items))) <= {int}:
        return list[list[int]]
    return list


def _flat(data: dict[str, Any], kind: type[T]) -> T:
    """The same as `structured`, but fast: most lines contain only numbers, texts and rows."""
    types = _plain_types(cast(Any, kind))
    for name, value in data.items():
        found = type(value)
        if (_type_of(value) if found is list else found) not in types.get(name, ()):
            return structured(data, kind)
    try:
        return kind(**data)
    except TypeError:
        return structured(data, kind)  # It says what is missing.


def unstructured(value: object) -> Any:  # noqa: ANN401 - JSON
    """A value as lists and dictionaries, without fields that have their defaults."""
    return _converter().unstructure(value)


BATCH_END = "{}"
"""The line after the last action of a batch."""


def to_line(data: Mapping[str, Any]) -> str:
    """One line of JSON, without the line end."""
    return "".join(_encode(data, 0))


def from_line(line: str | bytes) -> object:
    """The value of a line of JSON. Raises ValueError."""
    try:
        text = line if isinstance(line, str) else line.decode()
        if text.rfind("{") != 0:  # Objects are nested.
            return _decoder.decode(text)
        try:
            data, end = _scan(text, 0)
        except StopIteration:
            return _decoder.decode(text)  # It has a message for the mistake.
        # With as many colons as keys, no key occurs twice.
        is_whole = end == len(text) and text.count(":") == len(data)
        return data if is_whole else _decoder.decode(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"not a line of JSON: {problem}") from problem


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object, whose keys must differ."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key occurs twice")
    return data


def _new_encoder() -> Callable[[object, int], Iterable[str]]:
    """The encoder that JSONEncoder would create for each line, which takes most of its time."""
    encoder = json.JSONEncoder(separators=(", ", ": "))
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # In another Python.
        return lambda data, _: encoder.iterencode(data)
    text = json.encoder.encode_basestring_ascii
    new: Callable[[object, int], Iterable[str]] = make(
        *(None, encoder.default, text, None, ": ", ", ", False, False, True)
    )
    return new


_encode = _new_encoder()
_decoder = json.JSONDecoder(object_pairs_hook=_object)
_scan = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # It reads the decoder's fields.
"""It is fast, but drops the first value of a key that occurs twice."""


def as_object(data: object) -> dict[str, Any]:
    """The data, which must be a JSON object. Raises ValueError."""
    if not isinstance(data, dict):
        raise ValueError("a line must be a JSON object")  # noqa: TRY004 - the caller's one error
    return data


def action_to_data(action: Action) -> dict[str, Any]:
    """An action's line, as data. `do` comes first."""
    return {"do": NAMES[type(action)], **unstructured(action)}


def action_from_data(data: object) -> Action:
    """The action of one line. Raises ValueError saying what is wrong with it."""
    fields = dict(as_object(data))
    name = fields.pop("do", None)
    if not isinstance(name, str) or name not in ACTIONS:
        like = did_you_mean(name, ACTIONS) if isinstance(name, str) else ""
        raise ValueError(f'"do" must name an action, and {quoted(name)} is none{like}')
    return _flat(fields, ACTIONS[name])


def observation_from_data(data: object) -> Observation:
    """The observation of one line. Raises ValueError saying what is wrong with it."""
    fields = as_object(data)
    stated = fields.get("members")
    members = stated if isinstance(stated, list) else ()
    if any(isinstance(each, dict) and each.get("members") for each in members):
        raise ValueError("members[…] has members, and must have none")
    observation = _flat(fields, Observation)
    for each in (fields, *members):
        for field in ("samples", "minors"):
            if field in each and (count := each[field]) not in COUNTS:
                raise ValueError(f"{field} is {quoted(count)}; it must be {COUNTS}")
    return observation


def contract_from_data(data: object) -> Contract:
    """A contract. Raises ValueError saying what is wrong with it."""
    contract = structured(as_object(data), Contract)
    check_contract(contract)
    return contract


def checked_contract(contract: Contract) -> Contract:
    """A contract that was made in Python, as if it had been read: lists are tuples.

    Raises ValueError saying what is wrong with it. Python lets a field have any value.
    """
    return contract_from_data(unstructured(contract))


def check_contract(contract: Contract) -> None:
    """Raises ValueError saying what is wrong with a contract, if anything is.

    The message has the first mistake. If there are several, the error's notes list all.
    """
    problems = [f"contract: {problem}" for problem in problems_of(contract)]
    if not problems:
        return
    count = f" (the first of {len(problems)} mistakes)" if len(problems) > 1 else ""
    error = ValueError(problems[0] + count)
    for problem in problems if count else ():
        error.add_note(problem)
    raise error
