"""The group that all commands register themselves in, and the options that several have."""

from __future__ import annotations

import functools

import click
from typing_extensions import override

from fuzz.terminal.addresses import PathOrAddress
from fuzz.terminal.target_options import OneOf, TargetsCommand
from fuzz.version import __version__

WORKERS_MAX = 256
PLACE = PathOrAddress()

engine_option = click.option(
    "--engine", type=OneOf("fuzz.sessions.plan", "ENGINES"), default="random", show_default=True
)
name_option = click.option(
    "--name",
    "session_name",
    default="",
    help="What distinguishes the program from others in a history, whatever its path is.",
)
workers_option = functools.partial(click.option, "--workers", type=click.IntRange(1, WORKERS_MAX))


class Commands(click.Group):
    """The commands. One that takes a target loads the registrations when it is called."""

    command_class = TargetsCommand

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the hidden commands apart: they measure gcfuzz itself, and no user's target."""
        super().format_commands(ctx, formatter)
        hidden = [each for _, each in sorted(self.commands.items()) if each.hidden]
        with formatter.section("To change gcfuzz itself"):
            formatter.write_dl([(str(each.name), each.get_short_help_str()) for each in hidden])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Find bugs in garbage collectors and allocators that sample their allocations."""
