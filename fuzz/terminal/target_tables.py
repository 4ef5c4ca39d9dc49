"""What `gcfuzz targets` prints: the targets, their settings, versions, and the known bugs.

It is apart from the other tables, which need sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import attrs

from fuzz.plain import LINE_MAX, plain
from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract, Setting
from fuzz.protocol.target import contract_of
from fuzz.targets import PROCESS, REFERENCE, TargetOptions, make_target, registry
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.targets.references import REFERENCES
from fuzz.targets.registration import Registration
from fuzz.terminal.screen import Screen, in_columns

if TYPE_CHECKING:
    from rich.console import Console


class _Line(NamedTuple):
    """A line of the list of targets, which a terminal wraps."""

    text: str
    bold: int = 0
    """The number of characters in bold, from its start."""
    indent: int = 0
    """By how many columns what is wrapped is indented."""


def print_targets(screen: Screen) -> None:
    """Print the targets, the settings of the references, and the known bugs."""
    parts: list[tuple[str, str]] = []
    for line in _lines():
        text = plain(line.text, LINE_MAX)
        if screen.columns is not None:
            text = in_columns(text, screen.columns, line.indent)
        parts += (text[: line.bold], "bold"), (f"{text[line.bold :]}\n", "")
    # In one call, because rich asks six times for the size of the terminal in each.
    screen.print_parts(*parts[:-1], (parts[-1][0].removesuffix("\n"), ""))


def _lines() -> Iterator[_Line]:
    contracts = {name: make_target(name).start({}) for name in REFERENCES}
    first = contracts[REFERENCE]
    yield _entry(REFERENCE, f"{REFERENCES[REFERENCE].description}. Settings of a trace's header:")
    yield from _settings_table(first.settings)
    yield _Line(f"sampling period in bytes: {first.sampling.period_bytes}")
    for name, contract in contracts.items():
        if name != REFERENCE:
            yield _Line("")
            yield from _shown_reference(name, contract, first)
    yield _Line("")
    for each in _others():
        options = " ".join(f"--{option.name}" for option in each.options)
        yield _entry(f"{each.name} {options}".rstrip(), each.description)
    yield _Line(
        "`gcfuzz targets --available` lists what these need, and `gcfuzz help` the page of each."
    )
    yield _Line("")
    yield _entry(f"{REFERENCE}+BUG", "with a known bug planted; several may be joined by +.")
    for bug in KNOWN_BUGS.values():
        yield _Line(f"{bug.host}+{bug.id}")
        for line in (bug.what, f"{bug.seen_in}; caught by {' or '.join(bug.oracles)}"):
            yield _Line(f"    {line}", indent=4)


def _others() -> list[Registration]:
    others = registry().targets.keys() - REFERENCES.keys()
    return [registry().targets[name] for name in sorted(others)]


def print_available(console: Console, paths: TargetOptions) -> None:
    """Print the versions of the other targets, and what is missing for the rest.

    `paths` names the runtimes, as for `run`.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("target", "version", "what to install"):
        table.add_column(name, overflow="fold")
    for each in _others():
        if each.name == PROCESS or (each.variant_of is not None and not each.needs_more):
            continue
        try:
            table.add_row(each.name, _version_of(each, paths))
        except (BadInputError, OSError) as problem:  # The other rows are right.
            table.add_row(each.name, Text("none", "red"), str(problem))
    console.print(table)


def _version_of(target: Registration, options: TargetOptions) -> str:
    shared = {
        option.name
        for other in registry().targets.values()
        for option in other.options
        if (other.variant_of or other.name) != (target.variant_of or target.name)
    }
    own = {name: path for name, path in options.paths.items() if name not in shared}
    try:
        return contract_of(make_target(target.name, options)).version
    except BadInputError:
        if own == options.paths:
            raise
    # A path of a shared option may be meant for the other target.
    return contract_of(make_target(target.name, attrs.evolve(options, paths=own))).version


def _entry(name: str, what: str) -> _Line:
    return _Line(f"{name}: {what}", bold=len(name))


def _shown_reference(name: str, contract: Contract, first: Contract) -> Iterator[_Line]:
    """A reference with another sampler, and the settings that it does not share."""
    own = [each for each in contract.settings if each not in first.settings]
    missing = [each.name for each in first.settings if each not in contract.settings]
    without = f" but {', '.join(missing)}" if missing else ""
    whose = f"the settings of {REFERENCE}{without}{', and' if own else ''}"
    if len(missing) == len(first.settings):
        whose = "settings"
    yield _entry(name, f"{REFERENCES[name].description}; {whose}")
    if own:
        yield from _settings_table(own)


def _settings_table(settings: Iterable[Setting]) -> Iterator[_Line]:
    """Only the last column may be wrapped."""
    rows = [("setting", "default", "legal values")]
    for each in settings:
        at_most = f", at most {each.at_most}" if each.at_most else ""
        rows.append((each.name, str(each.default), each.legal_values + at_most))
    names, defaults = (max(map(len, column)) + 2 for column in [*zip(*rows, strict=True)][:2])
    for number, (name, default, legal) in enumerate(rows):
        text = f"{name:<{names}}{default:<{defaults}}{legal}"
        yield _Line(text, bold=0 if number else len(text), indent=names + defaults)
