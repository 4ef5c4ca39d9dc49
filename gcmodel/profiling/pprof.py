"""A profile for pprof: allocated, surviving and live objects and bytes.

    go tool pprof -sample_index=survived_space FILE.pb.gz

A sample's labels are its type, its fate, its place (nursery or outside), and its lifetime.
Invariant: bytes are sums of what samples stand for, and objects are rounded sums, so that all
formats have the same totals. pprof compares names and lines, so `-diff_base` subtracts like from
like.

(google/pprof, `proto/profile.proto`. Its messages have a dozen fields of two kinds. No package
contains them, and writing them takes less code than declaring them to a library.)
"""

import gzip
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from gcmodel.estimation.unbiased import Totals
from gcmodel.profiling.profile import Fate, Numbers, Profile, ProfileSample
from gcmodel.profiling.text_formats import stands_for

KINDS: dict[str, Callable[[ProfileSample], bool]] = {
    "alloc": lambda _: True,
    "survived": lambda sample: sample.fate in (Fate.SURVIVED, Fate.DIED_OLD),
    "inuse": lambda sample: sample.died_at_us is None,
}
"""Which samples each value counts. An object is in use until a collection reports it dead."""
LABELS = "type", "fate", "place", "lifetime"
UNITS = {"objects": "count", "space": "bytes"}
VARINT, LENGTH_DELIMITED = 0, 2
"""The wire types of numbers, and of texts and messages."""
VARINT_BITS = 7


def write(profile: Profile, path: Path) -> None:
    """Write a profile, compressed. Raises OSError."""
    path.write_bytes(gzip.compress(encoded(profile), mtime=0))


def encoded(profile: Profile) -> bytes:
    """The profile as a message."""
    header = profile.header
    strings = Numbers({"": 0})
    types = [
        (strings[f"{kind}_{what}"], strings[unit]) for kind in KINDS for what, unit in UNITS.items()
    ]
    return _message(
        *((1, _message((1, name), (2, unit))) for name, unit in types),
        *((2, sample) for sample in _samples(profile, strings)),
        *_places(profile, strings),
        (9, header.began_unix_ms * 10**6),
        (10, profile.ended_us * 1000),
        (11, _message((1, strings["space"]), (2, strings["bytes"]))),
        (12, header.period_bytes),
        (14, strings["alloc_space"]),
        *((6, text.encode(errors="replace")) for text in strings),
    )


def _samples(profile: Profile, strings: Numbers[str]) -> list[bytes]:
    """A message for each stack with its labels."""
    sums: defaultdict[tuple[int, str, str, str, str], dict[str, Totals]] = defaultdict(
        lambda: dict.fromkeys(KINDS, Totals())
    )
    for each in profile.samples:
        place = {None: "unknown", True: "outside", False: "nursery"}[each.is_outside]
        of = sums[each.stack, each.type, each.fate, place, each.lifetime]
        for kind, counts in KINDS.items():
            if counts(each):
                of[kind] += stands_for(each)
    messages = []
    for (stack, *labels), of in sums.items():
        frames = [(1, number + 1) for number in profile.frame_numbers_of(stack)]
        values = [(2, round(n)) for each in of.values() for n in (each.objects, each.bytes)]
        named = [
            (3, _message((1, strings[name]), (2, strings[label])))
            for name, label in zip(LABELS, labels, strict=True)
        ]
        messages.append(_message(*frames, *values, *named))
    return messages


def _places(profile: Profile, strings: Numbers[str]) -> list[tuple[int, bytes]]:
    """Fields with a line for each frame, and with the functions of these."""
    functions: Numbers[tuple[str, str, int]] = Numbers()
    files = profile.short_files()
    fields = []
    for number, frame in enumerate(profile.frames, 1):
        function = functions[frame.function, files[frame.file], frame.first_line] + 1
        line = _message((1, function), (2, frame.line))
        fields.append((4, _message((1, number), (4, line))))
    for (name, file, first_line), number in functions.items():
        of = (1, number + 1), (2, strings[name]), (4, strings[file]), (5, first_line)
        fields.append((5, _message(*of)))
    return fields


def _message(*fields: tuple[int, int | bytes]) -> bytes:
    """A message of numbered fields. No number is negative."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_varint(number << 3 | VARINT), _varint(value)]
        else:
            parts += [_varint(number << 3 | LENGTH_DELIMITED), _varint(len(value)), value]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all bytes but the last have their highest bit set."""
    encoded = bytearray()
    while value >= 1 << VARINT_BITS:
        encoded.append(value & 0x7F | 0x80)
        value >>= VARINT_BITS
    encoded.append(value)
    return bytes(encoded)
