"""Answers each header with one contract, each action with one answer: its two arguments."""

import json
import sys

for line in sys.stdin:
    contract, answer = sys.argv[1:]
    sys.stdout.write((contract if "gcfuzz" in json.loads(line) else answer) + "\n")
    sys.stdout.flush()
