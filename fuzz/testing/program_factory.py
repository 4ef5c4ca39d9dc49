"""A program as the target of tests: what `command="./adapter"` stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol.target import Target
from fuzz.protocol.trace import Header
from fuzz.targets import PROCESS, TargetOptions, make_target
from fuzz.targets.options import arguments_in

Command = str | Sequence[str]
"""A program with its arguments, as a shell writes it or apart."""


@attrs.frozen(slots=False)
class ProgramFactory:
    """Makes the target of a program. It is the same one each time, and keeps its process."""

    options: TargetOptions

    def __call__(self) -> Target:
        return self._target

    @cached_property
    def _target(self) -> Target:
        return make_target(PROCESS, self.options)

    def needed_by(self, header: Header) -> ProgramFactory:
        """The factory for a saved trace, which may need a process or a limit of its own."""
        options = attrs.evolve(
            self.options, fresh_process=header.fresh_process, memory_bytes=header.memory_bytes
        )
        return self if options == self.options else ProgramFactory(options)


def factory_of(
    target_factory: Callable[[], Target] | None, command: Command | None
) -> Callable[[], Target]:
    """What makes the targets of a test. Raises TypeError, or BadInputError for an empty command."""
    if (target_factory is None) == (command is None):
        raise TypeError("give a target_factory, or a command, and not both")
    if command is None:
        assert target_factory is not None
        return target_factory
    arguments = arguments_in(command, "command") if isinstance(command, str) else command
    if not arguments:
        raise BadInputError("command is empty; name a program")
    return ProgramFactory(TargetOptions(tuple(arguments)))
