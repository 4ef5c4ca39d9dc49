"""A target of the protocol whose process keeps more than one trace, as its argument says.

later     a string is an error from the process's ninth header on
tenth     a string ends the process from its tenth header on
stale     from its second on, and after a full collection in any case: that comes back
asks      from its second on, but the contract asks for a process a trace
extra, code, hang   at the end of input it says one more line, exits with a code, or stays
"""

import json
import os
import sys
import time
from typing import Any

MODE = sys.argv[1]
CONTRACT = {
    "nursery_bytes": 64,
    "layout": {
        "kinds": {"string": {"type_index": 1, "fixed_bytes": 8, "item_bytes": 1}},
        "large_object_bytes": 1024,
        "word_bytes": 1,
        "object_bytes_max": 4096,
    },
    "actions": ["allocate_string", "free", "collect_full"],
    "observes": ["size", "minors"],
    "fresh_process": MODE == "asks",
}

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
            if is_stale or (is_collected and MODE == "stale"):
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
