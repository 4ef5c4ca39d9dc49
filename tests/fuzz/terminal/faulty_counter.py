"""The sampling counter of examples/python, with the defects that its arguments name."""

import json
import sys
from typing import Any

DEFECTS = {*sys.argv[1:]}
FIXED_BYTES, LARGE_BYTES = 16, 300
CONTRACT: dict[str, object] = {
    "nursery_bytes": 1024,
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
if "no-samples" in DEFECTS:
    CONTRACT["observes"] = ["size"]
if "no-free" in DEFECTS:
    CONTRACT["actions"] = ["allocate_string", "enable_sampling"]

Answer = dict[str, object]


class Counter:
    """The sampler."""

    def __init__(self) -> None:
        self.period_bytes = self.counted_bytes = self.times_enabled = 0

    def allocate(self, size_bytes: int) -> Answer:
        if "large-error" in DEFECTS and size_bytes >= LARGE_BYTES:
            raise MemoryError(size_bytes)
        samples = 0
        if self.period_bytes or "counts-while-off" in DEFECTS:
            self.counted_bytes += size_bytes
        while self.period_bytes and self.counted_bytes + ("early" in DEFECTS) > self.period_bytes:
            samples += 1
            self.counted_bytes -= self.period_bytes
            if "drops-rest" in DEFECTS:
                self.counted_bytes = 0
        if "once" in DEFECTS:
            samples = min(samples, 1)
        return {"samples": samples, "size": size_bytes + ("size" in DEFECTS)}

    def enable(self, period_bytes: int) -> Answer:
        self.times_enabled += 1
        self.period_bytes = period_bytes
        if "counts-while-off" not in DEFECTS:
            self.counted_bytes = 0
        if "late" in DEFECTS and self.times_enabled > 1:
            self.counted_bytes = -1
        return {}

    def answer(self, message: dict[str, Any]) -> Answer:
        match message:
            case {"gcfuzz": _}:
                Counter.__init__(self)
                return {"contract": CONTRACT}
            case {"do": "allocate_string", "length": length}:
                return self.allocate(FIXED_BYTES + length)
            case {"do": "enable_sampling", "period_bytes": period_bytes}:
                return self.enable(period_bytes)
            case {"do": "disable_sampling"}:
                self.period_bytes = 0
            case {"do": "free"} if "free-error" in DEFECTS:
                raise KeyError(message["root"])
        return {}


counter = Counter()
for line in sys.stdin:
    try:
        reply = counter.answer(json.loads(line))
    except Exception as problem:  # noqa: BLE001 - a defect is answered
        reply = {"error": f"{type(problem).__name__}: {problem}"}
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
