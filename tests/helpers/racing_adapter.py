"""A target of the protocol with two threads at once, which loses a node now and then.

`python racing_adapter.py FILE EVERY` appends a letter to the file. It is wrong if the file then has
two letters, or two more than a multiple of EVERY.
"""

import json
import sys
from pathlib import Path
from typing import Any

STARTED, EVERY = Path(sys.argv[1]), int(sys.argv[2])
CONTRACT = {
    "nursery_bytes": 64,
    "layout": {
        "kinds": {
            "node": {"type_index": 1, "fixed_bytes": 32},
            "string": {"type_index": 2, "fixed_bytes": 16, "item_bytes": 1},
        },
        "large_object_bytes": 1024,
        "word_bytes": 8,
        "object_bytes_max": 4096,
    },
    "actions": ["run_at_once"],
    "observes": ["shares"],
    "sampling": {"period_bytes": {"minimum": 1, "maximum": 8}, "seeds": [0, 0]},
    "started_with": ["--racing"],
    "fresh_process": True,
}

with STARTED.open("a", encoding="utf-8") as started:
    started.write("x")
is_wrong = len(STARTED.read_text(encoding="utf-8")) % EVERY == 2
for line in sys.stdin:
    message = json.loads(line)
    answer: dict[str, Any] = {"contract": CONTRACT}
    if "do" in message:
        objects, start = message["objects"], message["first"]
        reads = [
            sum(number * (1 + number * 37 % 128) for number in range(first, first + objects))
            for first in (start, start + objects)
        ]
        answer = {"shares": [[read - is_wrong, 0, 0] for read in reads]}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
