"""What `gcfuzz targets` prints: the targets, their settings, versions, and the known bugs.

It is apart from the other tables, which need sessions.
"""

from __future__ import annotations

import shutil
import textwrap
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


LEGAL_COLUMNS_MIN = 20
"""The width of the legal values of settings in a narrow terminal."""


class _Line(NamedTuple):
    """A line of the list of targets, before it is wrapped."""

    text: str
    bold: int = 0
    """The number of characters in bold, from its start."""
    indent: int = 0


def print_targets(screen: Screen) -> None:
    """Print the targets, the settings of the references, and the known bugs."""
    # Laid out here, because rich takes longer for it than everything else together.
    columns = screen.columns or shutil.get_terminal_size().columns
    parts: list[tuple[str, str]] = []
    for line in _lines(columns):
        text = " " * line.indent + plain(line.text, LINE_MAX)
        shown = in_columns(text, columns, line.indent) + "\n"
        parts += (shown[: line.bold], "bold"), (shown[line.bold :], "")
    # In one call, because rich asks six times for the size of the terminal in each.
    screen.print_parts(*parts[:-1], (parts[-1][0].removesuffix("\n"), ""))


def _lines(columns: int) -> Iterator[_Line]:
    contracts = {name: make_target(name).start({}) for name in REFERENCES}
    first = contracts[REFERENCE]
    yield _entry(REFERENCE, f"{REFERENCES[REFERENCE].description}. Settings of a trace's header:")
    yield from _settings_table(first.settings, columns)
    yield _Line(f"sampling period in bytes: {first.sampling.period_bytes}")
    for name, contract in contracts.items():
        if name != REFERENCE:
            yield _Line("")
            yield from _shown_reference(name, contract, first, columns)
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
        yield _Line(bug.what, indent=4)
        yield _Line(f"{bug.seen_in}; caught by {' or '.join(bug.oracles)}", indent=4)


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


def _shown_reference(
    name: str, contract: Contract, first: Contract, columns: int
) -> Iterator[_Line]:
    """A reference with another sampler, and the settings that it does not share."""
    own = [each for each in contract.settings if each not in first.settings]
    missing = [each.name for each in first.settings if each not in contract.settings]
    without = f" but {', '.join(missing)}" if missing else ""
    whose = f"the settings of {REFERENCE}{without}{', and' if own else ''}"
    if len(missing) == len(first.settings):
        whose = "settings"
    yield _entry(name, f"{REFERENCES[name].description}; {whose}")
    if own:
        yield from _settings_table(own, columns)


def _settings_table(settings: Iterable[Setting], columns: int) -> Iterator[_Line]:
    rows = [("setting", "legal values", "default")]
    for each in settings:
        at_most = f", at most {each.at_most}" if each.at_most else ""
        rows.append((each.name, each.legal_values + at_most, str(each.default)))
    name, legal, default = (max(map(len, column)) for column in zip(*rows, strict=True))
    legal = min(legal, max(columns - name - default - 4, LEGAL_COLUMNS_MIN))
    for number, row in enumerate(rows):
        first, *others = textwrap.wrap(row[1], legal)
        for cells in ((row[0], first, row[2]), *(("", each, "") for each in others)):
            text = f"{cells[0]:<{name}}  {cells[1]:<{legal}}  {cells[2]}".rstrip()
            yield _Line(text, bold=0 if number else len(text))
