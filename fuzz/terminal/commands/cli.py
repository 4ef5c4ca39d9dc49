"""The command line, `gcfuzz`: its commands, and what an error of any of them becomes.

`exit_codes` has the exit codes. Each command imports what it needs in its own body, because imports
are most of the time of a short command.
"""

from __future__ import annotations

import click

from fuzz.problems import BadInputError, HarnessError, InterruptedWorkError, notes_of
from fuzz.terminal import exit_codes
from fuzz.terminal.commands import catalogue, init, nights, profile, run, traces
from fuzz.terminal.commands.group import cli
from fuzz.terminal.exit_codes import complain, complain_at_length, unexpected
from fuzz.terminal.standard_streams import lost_output

COMMANDS = catalogue, init, nights, profile, run, traces
"""Each registers its commands in `cli` when it is imported."""


def run_command_line(arguments: list[str]) -> int:
    """Run the command line; returns the exit code. Errors are one line each, on stderr."""
    try:
        code = cli.main(arguments, prog_name="gcfuzz", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_page:
        click.echo(help_page.format_message())
        code = exit_codes.BAD_INPUT
    except click.ClickException as problem:
        code = complain(problem.format_message(), exit_codes.BAD_INPUT)
    except BadInputError as problem:
        for note in notes_of(problem):
            complain_at_length(note)
        code = complain(str(problem), exit_codes.BAD_INPUT)
    except HarnessError as problem:
        code = complain_at_length(f"gcfuzz: {problem.what} is broken: {problem}")
    except InterruptedWorkError as problem:
        code = complain(f"interrupted; {problem}", exit_codes.INCONCLUSIVE)
    except (click.Abort, KeyboardInterrupt):
        code = complain("interrupted", exit_codes.INCONCLUSIVE)
    except Exception as problem:  # noqa: BLE001 - all others
        code = unexpected(problem)
    code = code if isinstance(code, int) else exit_codes.CLEAN
    why = lost_output()
    if why is not None and code != exit_codes.HARNESS_BUG:
        return complain(
            f"standard output: {why}; the command went on without it", exit_codes.BAD_INPUT
        )
    return code
