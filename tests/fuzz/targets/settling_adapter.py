"""A target of the protocol whose process settles a setting, and says in an error which it is."""

import json
import os
import sys

CONTRACT = {
    "nursery_bytes": 64,
    "layout": {
        "kinds": {"string": {"type_index": 1, "fixed_bytes": 8, "item_bytes": 1}},
        "large_object_bytes": 1024,
        "word_bytes": 1,
        "object_bytes_max": 4096,
    },
    "actions": ["allocate_string", "free"],
    "observes": ["size", "minors"],
    "settings": [
        {"name": "heap", "default": 0, "range": {"minimum": 0, "maximum": 99}, "of_process": True},
        {"name": "trace", "default": 0, "range": {"minimum": 0, "maximum": 99}},
    ],
}

for line in sys.stdin:
    is_header = "gcfuzz" in json.loads(line)
    answer = {"contract": CONTRACT} if is_header else {"error": f"in {os.getpid()}"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
