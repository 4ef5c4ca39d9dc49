"""Converts files of version 1 of the format to version 2, in place.

`python -m fuzz.protocol.version_1 FILE...` converts traces, recordings and contracts. A file of
version 2 stays as it is. Version 1 stated how a target counts bytes in keys of `sampling` and in
`buffers` of the contract. Version 2 states it in one key of `sampling`, `counting`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fuzz.files import read_bytes, replacing
from fuzz.problems import BadInputError

OLD, NEW = 1, 2
OF_WAYS: dict[str, dict[str, object]] = {
    "contexts": {"context_bytes": 0, "contexts": "sized", "outside": "apart"},
    "buffers": {"generators": "each", "births": "draws", "resting_period_bytes": 0},
    "streams": {"streams": "one", "postponed": [], "renewed_by": [], "unit_bytes": 1},
    "net_bytes": {"frees": "ignored", "unsampled_bytes": 0},
    "profile_rate": {"new_period": "waits", "certain_period_bytes": 0, "spent_numbers": 0},
    "lazy_seeds": {"reseeds": []},
}
"""The keys of `sampling` that version 2 does not have, by its way to count, with their defaults."""
DEFAULTS = {key: default for keys in OF_WAYS.values() for key, default in keys.items()}
NEEDED = {"contexts": "context_bytes", "buffers": "buffers", "streams": "streams"}
NEEDED |= {"net_bytes": "frees", "lazy_seeds": "reseeds"}
"""The key that a way's other keys depend on."""
_RENAMED = {"contexts": "sizes", "reseeds": "seeds"}
_NEW_SIZES = {"sized": "fixed", "told": "reported"}


def keys_of_version_1(contract: object) -> list[str]:
    """The keys of a contract that only version 1 has."""
    if not isinstance(contract, dict):
        return []
    sampling = contract.get("sampling")
    found = [key for key in DEFAULTS if isinstance(sampling, dict) and key in sampling]
    return [*found, *(key for key in ("buffers",) if key in contract)]


def converted_contract(contract: Mapping[str, Any]) -> dict[str, Any]:
    """A contract of version 1 as one of version 2. Raises ValueError if it cannot be stated."""
    found = keys_of_version_1(contract)
    new = {key: value for key, value in contract.items() if key != "buffers"}
    if not found:
        return new
    sampling = dict(contract.get("sampling", {}))
    stated = {key: sampling.pop(key) for key in found if key != "buffers"}
    stated = {key: value for key, value in stated.items() if value != DEFAULTS[key]}
    if contract.get("buffers") is not None:
        stated["buffers"] = contract["buffers"]
    counting = _counting(stated, str(sampling.get("distances")))
    return {**new, "sampling": {**sampling, **({"counting": counting} if counting else {})}}


def _counting(stated: dict[str, Any], distances: str) -> dict[str, Any]:
    """The value of `counting`; empty if plain bytes are counted."""
    if stated.pop("unit_bytes", 1) != (8 if distances == "ocaml" else 1):
        raise ValueError("unit_bytes must be 8 with the distances ocaml, and 1 with others")
    ways = {by for by, keys in OF_WAYS.items() if not stated.keys().isdisjoint({*keys, by})}
    if not ways:
        return {}
    by = ways.pop()
    if ways or (by in NEEDED and NEEDED[by] not in stated):
        raise ValueError(f"version 2 cannot state these keys together: {', '.join(stated)}")
    if "contexts" in stated:
        stated["contexts"] = _NEW_SIZES[stated["contexts"]]
    keys = {**stated.pop("buffers", {}), **stated}
    left = {key: value for key, value in keys.items() if key not in ("streams", "frees")}
    return {"by": by, **{_RENAMED.get(key, key): value for key, value in left.items()}}


def converted(text: str) -> str:
    """The text of a file, converted. Raises ValueError saying what is wrong with it."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict) and "\n" in text.rstrip("\n"):  # A contract over several lines.
        new = _converted_object(document)
        return text if new == document else json.dumps(new, indent=2) + "\n"
    return "\n".join(map(_converted_line, text.split("\n")))


def _converted_line(line: str) -> str:
    if not any(f'"{key}"' in line for key in ("gcfuzz", "contract", "sampling")):
        return line
    data = json.loads(line)
    new = _converted_object(data) if isinstance(data, dict) else data
    if new == data:
        return line
    if {**new, "gcfuzz": OLD} == {**data, "gcfuzz": OLD}:
        return re.sub(r'("gcfuzz"\s*:\s*)1\b', r"\g<1>2", line, count=1)
    return json.dumps(new)


def _converted_object(data: dict[str, Any]) -> dict[str, Any]:
    """Converts a header, an answer with a contract, or a contract. Anything else stays as it is."""
    version = data.get("gcfuzz")
    if version == NEW:
        return data
    if "gcfuzz" in data:
        if version != OLD:
            raise ValueError(f"version {version} is unknown")
        data = {**data, "gcfuzz": NEW}
    if isinstance(data.get("contract"), dict):
        return {**data, "contract": converted_contract(data["contract"])}
    return converted_contract(data) if keys_of_version_1(data) else data


def convert(path: Path) -> bool:
    """Convert a file; returns whether it changed. Raises BadInputError, OSError."""
    try:
        text = read_bytes(path).decode()
        new = converted(text)
    except ValueError as problem:
        raise BadInputError(f"{path}: {problem}") from problem
    if new == text:
        return False
    with replacing(path) as place:
        place.write_text(new, encoding="utf-8")
    return True


def main(arguments: Sequence[str]) -> int:
    """Convert each file. Returns 0, or 2 if one cannot be converted."""
    code = 0
    if not arguments:
        sys.stderr.write("usage: python -m fuzz.protocol.version_1 FILE...\n")
        code = 2
    for name in arguments:
        try:
            changed = convert(Path(name))
            sys.stdout.write(f"{name}: {'converted' if changed else 'nothing to convert'}\n")
        except (BadInputError, OSError) as problem:
            sys.stderr.write(f"error: {problem}\n")
            code = 2
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
