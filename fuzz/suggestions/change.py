"""A change of one key of a contract, whichever part of the contract has the key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import Way

OF_SAMPLING = "sampling."


@attrs.frozen
class Change:
    """The key, with the names of the parts that lead to it, and its value.

    A part is an object, or a mapping from names to objects.
    """

    key: str
    value: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.key.split("."))

    def applied(self, contract: Contract) -> Contract:
        """The contract with the value."""
        changed: Contract = _changed(contract, self.names, self.value)
        return changed

    def stated(self, contract: Contract) -> Any:  # noqa: ANN401 - of any key
        """The value that a contract states."""
        value: Any = contract
        for name in self.names:
            value = value[name] if isinstance(value, Mapping) else getattr(value, name)
        return value

    def excludes(self, other: Change) -> bool:
        """Whether a contract cannot have both: one is in a part that the other replaces."""
        shorter = min(len(self.names), len(other.names))
        return self.names[:shorter] == other.names[:shorter]

    @property
    def text(self) -> str:
        """The key and the value, as a person would say them: `crosses: at`."""
        return f"{self._name}: {_described(self.value)}"

    @property
    def _name(self) -> str:
        name = self.key.removeprefix(OF_SAMPLING)
        return f"{name}.by" if isinstance(self.value, Way) else name

    def stated_text(self, contract: Contract) -> str:
        """The value that a contract states, as text."""
        return _described(self.stated(contract))


Changes = tuple[Change, ...]


def changed(contract: Contract, changes: Sequence[Change]) -> Contract:
    """The contract with all changes."""
    for change in changes:
        contract = change.applied(contract)
    return contract


def _changed(part: Any, names: Sequence[str], value: Any) -> Any:  # noqa: ANN401 - any part
    if not names:
        return value
    first, *rest = names
    if isinstance(part, Mapping):
        return {**part, first: _changed(part[first], rest, value)}
    return attrs.evolve(part, **{first: _changed(getattr(part, first), rest, value)})


def _described(value: object) -> str:
    if isinstance(value, Way):
        keys = attrs.asdict(value, recurse=False).items()
        named = [f"{key} {its}" for key, its in keys if isinstance(its, str)]
        return " with ".join([value.by, *([", ".join(named)] if named else [])])
    return value if isinstance(value, str) else json.dumps(value)
