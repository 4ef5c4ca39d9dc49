"""A target of the protocol that does one thing wrong: the first argument.

It allocates strings and takes no samples. It does the wrong thing at a full collection, or at a
header whose `trouble` is 1. With the last argument `batch` it answers a trace at its end.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONTRACT = {
    "nursery_bytes": 64,
    "layout": {
        "kinds": {"string": {"type_index": 1, "fixed_bytes": 8, "item_bytes": 1}},
        "large_object_bytes": 1024,
        "word_bytes": 1,
        "object_bytes_max": 4096,
    },
    "sampling": {"period_bytes": {"minimum": 8, "maximum": 4096, "multiple": 8}},
    "settings": [{"name": "trouble", "default": 0, "range": {"minimum": 0, "maximum": 1}}],
    "actions": ["allocate_string", "free", "collect_full", "enable_sampling"],
    "observes": ["size", "minors"],
}
RIGHT = {"minors": 1}
KEPT: list[bytes] = []
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)", *sys.argv[2:]]
IS_BATCH = sys.argv[-1] == "batch"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    if not IS_BATCH:
        sys.stdout.flush()


def complain(*lines: str) -> None:
    sys.stderr.write("\n".join(lines) + "\n")


def end_with(code: int, *complaint: str) -> None:
    complain(*complaint)
    sys.exit(code)


def end_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def break_twice() -> None:
    """The first two processes break; the second argument is the file that counts them."""
    with Path(sys.argv[2]).open("a+", encoding="ascii") as file:
        file.write("x")
        file.seek(0)
        times = len(file.read())
    if times <= 2:
        end_by_signal()
    say(json.dumps(RIGHT))


def hang() -> None:
    time.sleep(600)


def hang_with_child() -> None:
    subprocess.run(SLEEP, check=False, timeout=600)


def take_memory() -> None:
    """Keep 100 MB of touched pages."""
    KEPT.append(b"x" * 100_000_000)
    say(json.dumps(RIGHT))


def leave_orphan() -> None:
    subprocess.Popen(SLEEP)
    end_by_signal()


def leave_daemon(then: Callable[[], None]) -> None:
    """Leave a grandchild without a parent, in its own session and with its own streams."""
    child = os.fork()
    if child == 0:
        os.setsid()
        subprocess.Popen(
            SLEEP,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os._exit(0)
    os.waitpid(child, 0)
    then()


def close_output() -> None:
    os.close(1)
    hang()


def say_endlessly(text: str) -> None:
    while True:
        sys.stdout.write(text)


def complain_endlessly() -> None:
    while True:
        complain("x" * 10**5)


def say_long_line() -> None:
    for _ in range(100):
        sys.stdout.write("x" * 10**6)
    say("")


MISBEHAVIOURS: dict[str, Any] = {
    "signal": end_by_signal,
    "breaks-twice": break_twice,
    "exit": lambda: end_with(3, "boom"),
    "silent-exit": lambda: end_with(0),
    "sanitizer": lambda: end_with(
        1,
        f"=={os.getpid()}==ERROR: AddressSanitizer: heap-use-after-free on {id(RIGHT):#x}",
        "SUMMARY: AddressSanitizer: heap-use-after-free collector.c:12 in mark",
        f"=={os.getpid()}==ABORTING",
    ),
    "hang": hang,
    "memory": take_memory,
    "child": hang_with_child,
    "orphan": leave_orphan,
    "daemon": lambda: leave_daemon(end_by_signal),
    "hanging-daemon": lambda: leave_daemon(hang),
    "daemon-beside": lambda: leave_daemon(lambda: say(json.dumps(RIGHT))),
    "no-answer": lambda: None,
    "closed": close_output,
    "words": lambda: say("collecting..."),
    "no-object": lambda: say("[1]"),
    "cut-off": lambda: say('{"minors": 1'),
    "extra": lambda: say(json.dumps(RIGHT) + "\n" + json.dumps(RIGHT)),
    "unknown-field": lambda: say('{"minors": 1, "minor": 1}'),
    "unlisted-field": lambda: say('{"minors": 1, "identity": 7}'),
    "wrong-type": lambda: say('{"minors": "1"}'),
    "fraction": lambda: say('{"minors": 1.5}'),
    "twice": lambda: say('{"minors": 1, "minors": 1}'),
    "deep": lambda: say('{"minors": ' + "[" * 100_000),
    "no-text": lambda: (sys.stdout.buffer.write(b"\xff\xfe\n"), sys.stdout.flush()),
    "long": say_long_line,
    "flood": lambda: say_endlessly(json.dumps(RIGHT) + "\n"),
    "endless": lambda: say_endlessly("x" * 10**6),
    "complaints": complain_endlessly,
    "refusal": lambda: say('{"error": "NotImplementedError: no full collections yet"}'),
    "long-error": lambda: say(json.dumps({"error": "Error: a line" + "\n and another line" * 99})),
    "lie": lambda: say('{"minors": 0}'),
}


def perform(action: dict[str, Any]) -> None:
    match action["do"]:
        case _ if sys.argv[1] == "always-words":
            say("collecting...")
        case "allocate_string":
            say(json.dumps({"size": 8 + action["length"]}))
        case "collect_full" if sys.argv[1] in MISBEHAVIOURS:
            misbehave: Any = MISBEHAVIOURS[sys.argv[1]]
            misbehave()
        case "collect_full":
            say(json.dumps(RIGHT))
        case _:
            say("{}")


def begin(header: dict[str, Any]) -> None:
    if header["config"].get("trouble") and sys.argv[1] == "at-start":
        end_by_signal()
    if header["config"].get("trouble") and sys.argv[1] == "refuses-start":
        say('{"error": "NotImplementedError: no trouble yet"}')
        return
    say(json.dumps({"contract": {**CONTRACT, "batch": IS_BATCH}}))
    sys.stdout.flush()


if __name__ == "__main__":
    batch = []
    for line in sys.stdin:
        message = json.loads(line)
        if "gcfuzz" in message:
            begin(message)
        elif not IS_BATCH:
            perform(message)
        elif message:
            batch.append(message)
        else:
            for action in batch:
                perform(action)
            sys.stdout.flush()
            batch.clear()
