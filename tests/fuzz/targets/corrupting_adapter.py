"""Answers from a recording, with one corrupted or missing answer in each trace.

The recording and the corruptions are a JSON file, named on the command line. A header's setting
`corruption` is the number of the corruption, from 1 up.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say_bytes(digits: str) -> None:
    sys.stdout.buffer.write(bytes.fromhex(digits) + b"\n")
    sys.stdout.flush()


INSTEAD: dict[str, Any] = {
    "say": say,
    "flood": lambda length: say("x" * int(length)),
    "bytes": say_bytes,
    "nothing": lambda _: None,
    "exit": lambda code: sys.exit(int(code)),
    "signal": lambda name: os.kill(os.getpid(), signal.Signals[name]),
    "hang": lambda _: time.sleep(600),
    "close": lambda _: os.close(1),
}


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    corruption: dict[str, Any] = {}
    answers: list[str] = []
    for line in sys.stdin:
        message = json.loads(line)
        if "gcfuzz" in message:
            number = message["config"].get("corruption", 0)
            corruption = plan["corruptions"][number - 1] if number else {"run": 0, "answer": -1}
            run = plan["runs"][corruption["run"]]
            answers = list(run["answers"])
            left = len(answers) - corruption["answer"]
            say(run["contract"])
        elif len(answers) == left:
            answers.pop(0)
            INSTEAD[corruption["do"]](corruption["with"])
        else:
            say(answers.pop(0))


if __name__ == "__main__":
    main()
