"""A target of the protocol whose process keeps something between traces. The argument says what:

- chance: a string is an error after a full collection, and in each process with an odd number; the
  file of the second argument has a letter for each process so far
- later: a string is an error from the process's ninth header on
- tenth: a string ends the process from its tenth header on
- stale: a string is an error from the second header on, and after a full collection
- asks: as stale, but the contract requires a process for each trace
- extra, code, hang, late: at the end of input it writes one more line, exits with a code, stays, or
  ends some time after its output
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from misbehaving_adapter import CONTRACT as STRINGS

MODE = sys.argv[1]
CONTRACT = {
    **STRINGS,
    "settings": [],
    "actions": ["allocate_string", "free", "collect_full"],
    "fresh_process": MODE == "asks",
}

number = 0
if MODE == "chance":
    with Path(sys.argv[2]).open("ab") as processes:
        processes.write(b"x")
        number = processes.tell()

traces, is_collected = 0, False
for line in sys.stdin:
    message = json.loads(line)
    answer: dict[str, Any] = {}
    match message.get("do"):
        case None:
            traces, is_collected = traces + 1, False
            answer = {"contract": CONTRACT}
        case "allocate_string":
            is_stale = traces > {"later": 8, "stale": 1, "asks": 1}.get(MODE, traces)
            if MODE == "tenth" and traces >= 10:
                os._exit(7)
            is_stale |= is_collected and MODE in {"chance", "stale"}
            if is_stale or number % 2:
                answer = {"error": "StaleError: of an earlier collection"}
            else:
                answer = {"size": 8 + message["length"]}
        case "collect_full":
            is_collected = True
            answer = {"minors": 1}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
match MODE:
    case "extra":
        sys.stdout.write("{}\n")
    case "code":
        sys.exit(7)
    case "hang":
        os.close(1)
        time.sleep(600)
    case "late":
        os.close(1)
        time.sleep(1.5)
