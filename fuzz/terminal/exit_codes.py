"""Exit codes, and how a command reports what went wrong: in one line on standard error.

Exit codes: 0 clean, 1 a mismatch, 2 bad input, 3 inconclusive (a failure did not reproduce, the
command was interrupted, or something to be found was not found), 4 a bug of gcfuzz itself. A
mismatch in a session that was interrupted is 5. If several apply, 4 comes before 2 before 1 before
3.
`code_of_session` in `commands/run.py` and `code_of_night` in `commands/nights.py` choose one.
"""

from __future__ import annotations

import errno
import shutil
import sys

import click

from fuzz.plain import plain
from fuzz.terminal.addresses import with_addresses
from fuzz.terminal.screen import in_columns

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG, UNFINISHED_MISMATCH = range(6)
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EFBIG}
"""Too few open files, processes, memory, or disk space."""


def complain(message: str, code: int) -> int:
    """Print one line; returns the exit code."""
    line = plain(with_addresses(f"gcfuzz: {message}"))
    if sys.stderr.isatty():
        line = in_columns(line, shutil.get_terminal_size().columns)
    click.echo(line, err=True)
    return code


def complain_at_length(message: str) -> int:
    """Several lines: a bug of gcfuzz has a traceback."""
    for line in message.splitlines():
        click.echo(plain(line), err=True)
    return HARNESS_BUG


def unexpected(problem: Exception) -> int:
    """An error of the system with a file, a shortage, or a bug of gcfuzz."""
    if isinstance(problem, OSError) and problem.filename:
        return complain(f"{problem.filename}: {problem.strerror}", BAD_INPUT)
    if isinstance(problem, OSError) and problem.errno in SHORTAGES:
        return complain(f"{problem.strerror}; see `ulimit -a` and `df`", BAD_INPUT)
    import traceback

    complain_at_length("".join(traceback.format_exception(problem)))
    return complain("this is a bug of gcfuzz itself; please report it", HARNESS_BUG)
