"""What Memprof of OCaml 4.13, 4.14 and 5.3 does."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.protocol.contract import Contract, Distances, Range, SamplingRule, Setting
from fuzz.protocol.counting import Streams
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import KindLayout, Layout

DISTANCES: Mapping[str, Distances] = {"4.13": "ocaml", "4.14": "ocaml", "5.3": "ocaml_5_3"}
"""How each known version draws."""
SURVIVOR_BYTES: Mapping[str, int | None] = {"4.13": None, "4.14": None, "5.3": 0}
"""Of the finalizers' contract. In OCaml 5 a minor collection keeps what a new weak pointer refers
to (oldify_mopup in minor_gc.c). weak.mli says only that the collector "may erase" it."""
WORD_BYTES = 8
LAYOUT = Layout(
    kinds={
        "node": KindLayout(type_index=1, fixed_bytes=6 * WORD_BYTES),
        "string": KindLayout(2, fixed_bytes=3 * WORD_BYTES, item_bytes=WORD_BYTES),
        "array": KindLayout(3, fixed_bytes=2 * WORD_BYTES, item_bytes=WORD_BYTES),
    },
    large_object_bytes=258 * WORD_BYTES,
    word_bytes=WORD_BYTES,
    object_bytes_max=2**16,
    nonmovable="ignored",
)
"""With their headers. A node is allocated by compiled code, the others by the runtime."""
OBSERVES = ("samples", "samples_by_member", "minors", "size", "value", "graph", "contents")
BYTECODE, NATIVE = range(2)
SETTINGS = (
    Setting("minor_heap_words", 4096, Range(4096, 2**18), choices=(4096, 4096, 2**15, 2**18)),
    Setting("sampler_seed", 0, Range(0, 64)),
    Setting("tier", NATIVE, Range(BYTECODE, NATIVE), choices=(*[NATIVE] * 3, BYTECODE)),
)
"""Memprof's generator has one fixed seed: `sampler_seed` batches of its numbers are skipped."""
MEMBERS_MAX = 5
"""The mutator has a function for each number of nodes. (See mutator.ml.)"""


def release_of(version: str) -> str:
    """The first two numbers of a version, such as 5.3 of 5.3.0."""
    return ".".join(version.split(".")[:2])


def contract(version: str, actions: tuple[str, ...], chosen: Mapping[str, int]) -> Contract:
    """The contract under these settings. Machine code allocates a group at once, bytecode never."""
    is_native = chosen["tier"] == NATIVE
    groups = Groups(
        bytes_max=MEMBERS_MAX * LAYOUT.kinds["node"].fixed_bytes,
        members_max=MEMBERS_MAX,
        counted="as_one" if is_native else "each",
    )
    return Contract(
        nursery_bytes=chosen["minor_heap_words"] * WORD_BYTES,
        layout=LAYOUT,
        actions=actions,
        observes=(*OBSERVES, *(() if is_native else ("members",))),
        # The mutator allocates nothing for an answer, so each string has one number.
        contents="checksums",
        sampling=SamplingRule(
            period_bytes=Range(WORD_BYTES, 2**20, WORD_BYTES),
            crosses="at",
            counting=Streams(
                postponed=("string", "array"), renewed_by=("collections", "callbacks")
            ),
            disabling=("drop",),
            distances=DISTANCES[release_of(version)],
            seeds=(chosen["sampler_seed"],),
        ),
        groups=groups,
        settings=SETTINGS,
        tier_setting="tier",
        version=f"OCaml {version}",
    )
