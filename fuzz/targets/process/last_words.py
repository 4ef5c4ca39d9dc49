"""What a program that broke wrote on standard error, in one line.

Invariant: the line lacks what differs from run to run, as far as it is known: addresses, and ids of
processes and threads.
"""

from __future__ import annotations

import re
from itertools import pairwise

from fuzz.protocol.lines import QUOTED_MAX

_ERROR = re.compile(
    r"\[BUG\]|\b\w*(error|exception|panic|panicked|fatal|assert|assertion|abort|aborted)\b"
    r"|\bsegmentation fault\b",
    re.IGNORECASE,
)
"""In a line that says what went wrong, in most languages. Ruby's begins with a place and [BUG]."""
_TRACEBACK = "Traceback (most recent call last):"
_DIFFERS = re.compile(r"0x[0-9a-f]+|==\d+==|, [pt]id=\d+")


def most_important_line(complaint: str) -> str:
    """The line that says best what went wrong; empty if there is no line.

    After its first line, a runtime prints stacks and mappings, which can be longer than anything.
    """
    lines = [line.rstrip() for line in complaint.splitlines() if line.strip()]
    summaries = [line for line in lines if line.startswith("SUMMARY: ")]  # A sanitizer's.
    # A Java virtual machine's: the frame of the crash, or which of its own checks failed.
    frames = [
        after.removeprefix("# ")
        for line, after in pairwise(lines)
        if line == "# Problematic frame:"
    ]
    checks = [line for line in lines if line.startswith("#  ")]
    # Source lines in a stack trace are indented.
    errors = [line for line in lines if not line[0].isspace() and _ERROR.search(line)]
    if _TRACEBACK not in lines:
        errors = errors[:1]  # Python's exception comes last, after the ones that led to it.
    line = (summaries or frames or checks or errors or lines or [""])[-1]
    return _DIFFERS.sub("…", line.strip())[: 4 * QUOTED_MAX]
