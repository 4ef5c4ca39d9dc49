"""A sampling counter, and nothing else: no heap, no collector.

It speaks gcfuzz's protocol (docs/protocol.md), so that the rule by which it samples is checked
allocation by allocation. Every byte counts; whenever more than `period_bytes` have been counted,
one sample is taken and that many bytes are forgotten. With `--off-by-one` it has the mistake that
such counters tend to have: it compares with >=.

A counter in any language has three parts: a contract, which says what is promised; actions, which
the counter carries out, and your sampler will in its place; lines, each of which gets one answer.
`gcfuzz schema` prints a JSON Schema of the lines.
"""

import json
import sys
from typing import Any

OFF_BY_ONE = "--off-by-one" in sys.argv
FIXED_BYTES = 16

CONTRACT = {
    "nursery_bytes": 1024,  # There is none; sizes around this are interesting all the same.
    "layout": {
        "kinds": {"string": {"type_index": 1, "fixed_bytes": FIXED_BYTES, "item_bytes": 1}},
        "large_object_bytes": 65537,
        "word_bytes": 1,
        "object_bytes_max": 65536,
    },
    "sampling": {"period_bytes": {"minimum": 1, "maximum": 1048576}, "disabling": ["drop"]},
    "actions": ["allocate_string", "free", "enable_sampling", "disable_sampling"],
    "observes": ["samples", "size"],
}

Answer = dict[str, object]


class Counter:
    """The sampler."""

    period_bytes = 0
    """0 while sampling is off."""
    counted_bytes = 0
    """Since the last sample."""

    def is_due(self) -> bool:
        if OFF_BY_ONE:
            return self.counted_bytes >= self.period_bytes
        return self.counted_bytes > self.period_bytes

    def allocate(self, size: int) -> Answer:
        samples = 0
        if self.period_bytes:
            self.counted_bytes += size
            while self.is_due():
                self.counted_bytes -= self.period_bytes
                samples += 1
        return {"samples": samples, "size": size}

    def sample(self, every_bytes: int) -> Answer:
        self.period_bytes, self.counted_bytes = every_bytes, 0
        return {}

    def answer(self, message: dict[str, Any]) -> Answer:
        if "gcfuzz" in message:
            self.sample(0)
            return {"contract": CONTRACT}
        action = message["do"]
        if action == "allocate_string":
            return self.allocate(FIXED_BYTES + message["length"])
        if action == "free":
            return {}
        if action == "enable_sampling":
            return self.sample(message["period_bytes"])
        if action == "disable_sampling":
            return self.sample(0)
        raise ValueError("no such action")


counter = Counter()
for line in sys.stdin:
    try:
        reply = counter.answer(json.loads(line))
    except Exception as problem:  # noqa: BLE001 - whatever goes wrong is answered
        reply = {"error": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(reply), flush=True)
