"""The signals that end a command early: of Ctrl-C, of `kill`, and of a terminal that is closed."""

from __future__ import annotations

import signal

ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def not_ignored() -> list[signal.Signals]:
    """Those that this process does not ignore.

    A script's job in the background ignores Ctrl-C, and `nohup` a closed terminal.
    """
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
