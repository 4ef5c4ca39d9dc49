"""A contract with one mistake in it is found in a short session of the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from night import fresh, part_of
from target_helpers import Changed, changed, first_failure, installed

from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.counting import Bytes, Contexts, NetBytes, PlacedBlocks, Streams
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.target import FullTarget
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets.dotnet.contract import CONTEXT_BYTES
from fuzz.targets.python_profilers.profiler_driver import BLOCK_BYTES_MAX, HEADER_BYTES
from fuzz.targets.scalene.contract import MARK_BYTES

ACTIONS = 6000
LARGE = {"object_bytes_max": 2**17, "periods": (2**14, 2**16)}
"""Blocks with a place, of which some are sampled."""


def without_memento(kinds: Mapping[str, KindLayout]) -> Mapping[str, KindLayout]:
    return {**kinds, "node": attrs.evolve(kinds["node"], fixed_bytes=48)}


def grouped(**changes: Any) -> Callable[[Groups], Groups]:
    return lambda groups: attrs.evolve(groups, **changes)


MISTAKES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "ddtrace": {
        "crossing": {"crosses": "beyond"},
        "count": {"counts": "requested_plus_one"},
        "distances": {"distances": "gperftools"},
    },
    "dotnet": {
        "formula": {"distances": "dotnet_document"},
        "outside": {"counting": Contexts(CONTEXT_BYTES, sizes="reported")},
        "enabling": {"enabling": "draws"},
        "large objects": {"large_object_bytes": 85_008},
    },
    "gperftools": {
        "crossing": {"crosses": "at"},
        "surplus": {"surplus": "carried"},
        "all samples": {"samples_per_allocation": "all"},
        "requested": {"counts": "requested"},
        "room": {"counts": "size"},
        "realloc": {"realloc": "always"},
        "paused counting": {"paused": "counting"},
        "paused stopped": {"paused": "stopped"},
        "seed": {"seeds": (7,)},
        "never reseeded": {"counting": Bytes()},
        "no placeholder": {"first_bytes": ()},
        "class left out": {"size_classes": (8, 16, 48)},
        "profile": {"estimates": "probability"},
    },
    "jemalloc": {
        "crossing": {"crosses": "beyond"},
        "surplus": {"surplus": "carried", "counting": Bytes()},
        "all samples": {"samples_per_allocation": "all", "counting": Bytes()},
        "requested": {"counts": "requested"},
        "realloc": {"realloc": "when_moved"},
        "paused": {"paused": "stopped"},
        "first": {"first_bytes": (100, 100)},
        "profile": {"estimates": "probability"},
        "samples kept": {"setting_period": "keeps"},
        "nothing placed": {"counting": Bytes(), **LARGE},
        "a larger block placed": {"counting": PlacedBlocks(20_480), **LARGE},
        "seed": {"seeds": lambda seeds: tuple(seed ^ 1 for seed in seeds)},
        "contents": {"contents": "checksums"},
    },
    "ocaml": {
        "formula": {"distances": "geometric"},
        "crossing": {"crosses": "beyond"},
        "one stream": {"counting": Bytes()},
        "nothing postponed": {"counting": Streams((), ("collections", "callbacks"))},
        "kept by collections": {"counting": Streams(("string", "array"), ("callbacks",))},
        "kept by callbacks": {"counting": Streams(("string", "array"), ("collections",))},
        "once": {"samples_per_allocation": "one"},
        "seed": {"seeds": (9,)},
        "rounding": {"word_bytes": 16},
        "bytecode folds": {"groups": grouped(counted="as_one")},
        "machine code does not": {"groups": grouped(counted="each")},
        "the first is named": {"groups": grouped(sampled="first")},
        "six members": {"groups": grouped(members_max=6, bytes_max=6 * 48)},
        "arrays as members": {"groups": grouped(kinds=("node", "array"))},
    },
    "scalene": {
        "all bytes": {"counting": Bytes()},
        "requested": {"counts": "requested"},
        "crossing": {"crosses": "beyond", "counting": Bytes()},
        "marks": {"counting": NetBytes(unsampled_bytes=BLOCK_BYTES_MAX + HEADER_BYTES)},
        "a smaller mark": {"counting": NetBytes(unsampled_bytes=MARK_BYTES - 1)},
    },
    "tcmalloc": {
        "profile": {"estimates": "weight"},
        "crossing": {"crosses": "at"},
        "requested": {"counts": "requested"},
        "realloc": {"realloc": "when_moved"},
        "distances": {
            "distances": "gperftools",
            "weights": "none",
            "observes": ("samples", "size"),
        },
        "first": {"first_bytes": (4096, 4096)},
    },
    "v8": {
        "crossing": {"crosses": "beyond"},
        "enabling": {"enabling": "draws"},
        "weights": {"weights": "passed"},
        "memento": {"kinds": without_memento},
        "distances": {"distances": "v8_14_6"},
    },
}
NARROWED: Mapping[str, Mapping[str, Any]] = {
    "gperftools": {"period_bytes": Range(1024, 2**40)},
    "jemalloc": {"object_bytes_max": 1024, "periods": (16, 64)},
    "ocaml": {"period_bytes": Range(8, 800, 8)},
    "tcmalloc": {"object_bytes_max": 1024},
}
"""Short periods and small blocks, so that differences are frequent and sessions short."""
SETTINGS: Mapping[str, Mapping[str, int]] = {
    "ddtrace": {"period_bytes": 4096},
    "dotnet": {"threads": 1, "tier": 0, "maker": 0},
    "gperftools": {"period_bytes": 4096, "threads": 1},
    "jemalloc": {"period_bytes": 16},
    "scalene": {"period_bytes": 4096},
    "tcmalloc": {"period_bytes": 64, "threads": 2},
}


def with_mistake(name: str, mistake: str | None) -> FullTarget:
    changes = {**NARROWED.get(name, {}), **(MISTAKES[name][mistake] if mistake else {})}
    # Large blocks cost time, and a pause hides other mistakes.
    without = ("calloc", "realloc" if "paused" in str(mistake) else "pause_sampling")

    def change(right: Contract) -> Contract:
        return changed(right, **changes).without(without if name == "gperftools" else ())

    return Changed(installed(name), change, **SETTINGS.get(name, {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_without_a_mistake_the_session_has_no_failure(name: str) -> None:
    assert first_failure(with_mistake(name, None), part_of(ACTIONS), fresh("1")) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mistake"), [(name, each) for name in MISTAKES for each in MISTAKES[name]]
)
def test_a_mistake_in_the_contract_is_found(name: str, mistake: str) -> None:
    failure = first_failure(with_mistake(name, mistake), ACTIONS)
    assert failure is not None
    # The heap oracle has the errors of actions that the target cannot carry out.
    assert failure.oracle in {"sampling", "places", "estimate", "contents", "members", "heap"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mistake"), [("ocaml", "crossing"), ("v8", "crossing")])
def test_a_failure_in_a_process_that_is_kept_is_the_same_in_a_new_one(
    name: str, mistake: str
) -> None:
    """The first trace is left out: it has a new process anyway."""
    target = with_mistake(name, mistake)
    _, *later = slices_of(RandomEngine(target, "1"), ACTIONS, ProbeCounter())
    failure = next(failure for done in later for failure in done.failures)
    target.restart()
    assert run_actions(target, failure.configuration, failure.actions) == failure
