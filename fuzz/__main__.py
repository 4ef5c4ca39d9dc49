"""The command `gcfuzz`, also as `python -m fuzz`. It handles signals first: imports take time."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from fuzz.signals import not_ignored

INCONCLUSIVE = 3
AGAIN_SECONDS = 0.01
CYCLE_COLLECTION_THRESHOLD = 200_000
"""A start creates 90,000 objects that stay, for modules and their classes. Python would look for
garbage among them in vain."""


def _exit(number: int, frame: FrameType | None) -> None:
    """End the process while it still imports, so that there is nothing to clean up."""
    with suppress(OSError):  # It may be closed.
        os.write(2, b"gcfuzz: interrupted\n")
    os._exit(INCONCLUSIVE)


def _interrupt_later() -> None:
    """Interrupt the process once the caller has returned, since it loses each exception."""
    from threading import Timer

    try:
        Timer(AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT)).start()
    except KeyboardInterrupt:
        # On a busy machine the time can be up before the timer says that it has started.
        _interrupt_later()


def keep_interrupts() -> None:
    """Repeat an interrupt that comes while Python frees an object, and would be lost."""
    report = sys.unraisablehook

    def repeat(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            _interrupt_later()
        else:
            report(unraisable)

    sys.unraisablehook = repeat


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(CYCLE_COLLECTION_THRESHOLD)
    numbers = not_ignored()
    for number in numbers:
        signal.signal(number, _exit)
    keep_interrupts()
    from fuzz.terminal.standard_streams import prepare_streams

    prepare_streams()
    from fuzz.terminal.commands.cli import run_command_line

    for number in numbers:
        # Each of them then ends the programs under test with this process.
        signal.signal(number, signal.default_int_handler)
    code = run_command_line(sys.argv[1:])
    gc.freeze()  # Otherwise Python searches all objects for cycles while it ends.
    sys.exit(code)


if __name__ == "__main__":
    main()
