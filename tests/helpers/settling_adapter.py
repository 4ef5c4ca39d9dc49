"""A target of the protocol with a setting of the process; each answer is an error with its id."""

import json
import os
import sys

from misbehaving_adapter import CONTRACT as STRINGS

CONTRACT = {
    **STRINGS,
    "actions": ["allocate_string", "free"],
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
