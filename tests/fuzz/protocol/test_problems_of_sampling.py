"""What a contract may not state of its sampling: for each mistake there is a sentence."""

import attrs
from stated_contracts import (
    AT_ONCE,
    BLOCKS,
    BUFFERS,
    CONTEXTS,
    DUE,
    ONE,
    PERIOD,
    PLAIN,
    STREAMS,
    TLABS,
    Mistake,
    each_mistake,
    first_problem,
)

from fuzz.protocol.contract import NO_SAMPLING, Contract, Range
from fuzz.protocol.counting import Contexts, LazySeeds, NetBytes, ProfileRate, Streams

MISTAKES: list[Mistake] = [
    # Periods and distances.
    (PLAIN, {"sampling": NO_SAMPLING}, "sampling is left out; enable_sampling needs its period_by"),
    (PLAIN, {"period_bytes": Range(9, 15, 8)}, "period_bytes has no legal period: a multiple of 8"),
    (
        PLAIN,
        {"period_bytes": Range(0, 2**20)},
        "period_bytes is from 0 to 1048576; it must start a",
    ),
    (BLOCKS, {"initial_period_bytes": 4097}, "initial_period_bytes is 4097; it must be from 1 to"),
    (BLOCKS, {"initial_period_bytes": -5}, "initial_period_bytes is -5; it must be from 1 to 4096"),
    (
        BLOCKS,
        {"initial_period_bytes": 3, "periods": (1, 2, 4)},
        "initial_period_bytes is 3; it must be one of 1, 2, 4",
    ),
    (
        BLOCKS,
        {"periods": (100, 4097), "actions": ("malloc",)},
        "one of periods is not from 1 to 4096",
    ),
    (BLOCKS, {"period_bytes": Range(1, 2**53 + 1)}, "the longest period that is drawn is 90071992"),
    (
        BLOCKS,
        {"surplus": "carried", "distances": "dotnet_document"},
        "dotnet_document with a period of 1 needs surplus dropped, not carried",
    ),
    (
        BLOCKS,
        {"samples_per_allocation": "all", "distances": "tcmalloc"},
        "tcmalloc with a period of 1 needs samples_per_allocation one, not all",
    ),
    (STREAMS, {"period_bytes": Range(12, 120, 4)}, "distances is ocaml: period_bytes must be mult"),
    (
        STREAMS,
        {"period_bytes": Range(12, 120, 4), "distances": "ocaml_5_3"},
        "distances is ocaml_5_3: period_bytes must be multiples of 8",
    ),
    # What would take too long, or could not be counted.
    (
        BLOCKS,
        {"samples_per_allocation": "all", "object_bytes_max": 2**20 + 1},
        "the number of distances drawn for an object is 1048832; it must be from 0 to 1048576",
    ),
    (
        PLAIN,
        {"distances": "geometric", "word_bytes": 2**40},
        f"the number of distances drawn for an object is {2**37};",
    ),
    *[
        (
            BLOCKS,
            {"samples_per_allocation": "all", **rounding},
            f"the number of distances drawn for an object is {2**40};",
        )
        for rounding in ({"page_bytes": 2**40}, {"size_classes": (8, 2**40)})
    ],
    (  # To grow, a block may request a quarter more.
        BLOCKS,
        {"samples_per_allocation": "all", "realloc": "when_moved", "object_bytes_max": 2**20},
        f"the number of distances drawn for an object is {2**20 + 2**18};",
    ),
    (
        BLOCKS,
        {"object_bytes_max": 2**62, "page_bytes": 3 * 2**60},
        f"the size of the largest object is {6 * 2**60}; it must be from 0 to {2**62 - 1}",
    ),
    # What a key or an action needs of the rule.
    (PLAIN, {"disabling": ()}, "disable_sampling in actions needs a way in disabling"),
    (PLAIN, {"paused": "placeholders"}, "paused placeholders needs distances gperftools, not peri"),
    (PLAIN, {"paused": "counting"}, "set_callback in actions needs paused stopped, not counting"),
    (
        BLOCKS,
        {"distances": "period"},
        "first_bytes needs distances that a known generator draws, not period",
    ),
    (PLAIN, {"observes": (*PLAIN["observes"], "offsets")}, "offsets in observes needs distances t"),
    (
        BLOCKS,
        {"weights": "passed", "distances": "random", "first_bytes": ()},
        "weights needs distances that a known generator draws, not random",
    ),
    (BLOCKS, {"weights": "since", "surplus": "carried"}, "weights since needs surplus dropped, no"),
    (PLAIN, {"surplus": "due"}, "surplus due needs samples_per_allocation one, not all"),
    (
        BLOCKS,
        {**DUE, "counting": LazySeeds((1, 2, 3))},
        "surplus due needs counting bytes, not lazy_seeds",
    ),
    (BLOCKS, {**DUE, "estimates": "itself"}, "surplus due needs estimates none, not itself"),
    (
        BLOCKS,
        {**DUE, "observes": ("samples", "minors", "offsets")},
        "offsets cannot be listed with surplus due",
    ),
    (BLOCKS, {"estimates": "weight"}, "estimates weight needs weights in sampling"),
    *[
        (
            BLOCKS,
            {"estimates": "probability", "distances": name, "first_bytes": ()},
            f"estimates needs distances that can be predicted, not {name}",
        )
        for name in ("random", "unstated")
    ],
    (
        BLOCKS,
        {"estimates": "probability", "samples_per_allocation": "all", **PERIOD},
        "estimates needs samples_per_allocation one, not all",
    ),
    (
        BLOCKS,
        {"actions": ("malloc", "read_profile"), "observes": ("samples", "profile")},
        "read_profile in actions needs estimates in sampling",
    ),
    (
        BLOCKS,
        {"actions": ("malloc", "check_contents"), "observes": ("samples", "contents")},
        "check_contents in actions needs contents, bytes or checksums",
    ),
    (
        BLOCKS,
        {"actions": ("malloc", "check_contents"), "contents": "bytes", "observes": ("samples",)},
        "check_contents needs contents in observes",
    ),
    (
        BLOCKS,
        {"estimates": "dumped", "initial_period_bytes": None, "first_bytes": ()},
        "estimates dumped needs initial_period_bytes, and no enable_sampling in actions",
    ),
    (BLOCKS, {"observes": ("samples", "minors", "weights")}, "weights in observes needs weights i"),
    (BUFFERS, {"first_bytes": (None,)}, "enabling keeps needs first_bytes, a number for each thre"),
    (AT_ONCE, {"distances": "period"}, "run_at_once needs distances that are random or unstated,"),
    # What a way to count needs.
    (BLOCKS, {"counting": LazySeeds((1, 2))}, "counting.seeds has 2 numbers; it must have 3, as s"),
    (
        BLOCKS,
        {"counting": LazySeeds((1, 2, 3)), "distances": "unstated", "first_bytes": ()},
        "counting by lazy_seeds needs distances that a known generator draws, not unstated",
    ),
    (
        BLOCKS,
        {**ONE, "counting": ProfileRate(new_period="samples"), "distances": "jemalloc"},
        "counting.new_period samples draws a distance for the period 0, while sampling is off",
    ),
    (BLOCKS, {"counting": NetBytes(), **PERIOD}, "counting by net_bytes needs crosses at, not bey"),
    (BLOCKS, {"counting": NetBytes(unsampled_bytes=-1)}, "sampling.counting.unsampled_bytes is -1"),
    (BLOCKS, {"counting": ProfileRate(spent_numbers=1025)}, "sampling.counting.spent_numbers is 1"),
    (
        BLOCKS,
        {"counting": ProfileRate(), "samples_per_allocation": "all"},
        "counting by profile_rate needs samples_per_allocation one, not all",
    ),
    (CONTEXTS, {"counting": Contexts(0)}, "sampling.counting.context_bytes is 0; it must be at le"),
    (
        CONTEXTS,
        {"counting": Contexts(64, slow_kinds=("cat",))},
        "counting.slow_kinds lists 'cat', which is unknown",
    ),
    (CONTEXTS, {"counting": Contexts(264)}, "counting.context_bytes is 264; it must be from 1 to"),
    *[
        (CONTEXTS, {"distances": "geometric", key: value}, f"counting by contexts needs {key} ")
        for key, value in (
            ("crosses", "at"),
            ("surplus", "carried"),
            ("samples_per_allocation", "all"),
            ("paused", "counting"),
            ("weights", "passed"),
        )
    ],
    *[
        (
            CONTEXTS,
            {"distances": name},
            "counting by contexts needs distances that a known generator draws",
        )
        for name in ("period", "random")
    ],
    (STREAMS, {"counting": Streams(("cat",))}, "counting.postponed lists 'cat', which is unknown"),
    (
        STREAMS,
        {"distances": "period"},
        "counting by streams needs distances that a known generator draws, not",
    ),
    (STREAMS, {"seeds": (1, 2)}, "counting by streams needs one number in seeds, for one thread"),
    (STREAMS, ONE, "counting by streams needs surplus carried, or samples_per_allocation all, not"),
    (STREAMS, {"initial_period_bytes": 64}, "counting by streams needs initial_period_bytes 0, no"),
    (STREAMS, {"first_bytes": (8,)}, "counting by streams needs first_bytes (), not (8,)"),
    (STREAMS, {"paused": "counting"}, "counting by streams needs paused stopped, not counting"),
    (BUFFERS, {"nursery_bytes": 56}, "counting by buffers needs objects that all lie in the nurse"),
    (BUFFERS, {"nonmovable": "outside"}, "counting by buffers needs objects that all lie in the n"),
    (BUFFERS, {"large_object_bytes": 64}, "counting by buffers needs objects that all lie in the"),
    (BUFFERS, {"samples_per_allocation": "all"}, "counting by buffers needs samples_per_allocatio"),
    (BUFFERS, {"enabling": "draws"}, "counting by buffers needs enabling keeps, not draws"),
    (
        BUFFERS,
        {"counting": attrs.evolve(TLABS, waste_bytes=4)},
        "counting.waste_bytes is 4; it must be a multiple of word_bytes, 8",
    ),
    (
        BUFFERS,
        {"counting": attrs.evolve(TLABS, inline_kinds=("cat",))},
        "counting.inline_kinds lists 'cat', which is unknown",
    ),
    (
        BUFFERS,
        {"counting": attrs.evolve(TLABS, taken="anywhere", callback_bytes=24)},
        "counting.callback_bytes needs buffers that are taken in order",
    ),
    (BUFFERS, {"seeds": (1, 2), "first_bytes": (8, 8)}, "counting.generators shared needs seeds t"),
    # What must be observed, and what excludes each other.
    (PLAIN, {"observes": ("minors", "memory")}, "set_callback needs order in observes"),
    *[
        (PLAIN, {"promises": (promise,)}, f"{promise} in promises needs {field} in observes")
        for promise, field in (("memory", "memory"), ("progress", "state"), ("pressure", "state"))
    ],
    (PLAIN, {"observes": (*PLAIN["observes"], "memory")}, "memory in observes needs memory in pro"),
    (
        BLOCKS,
        {"distances": "random", "first_bytes": (), "observes": ("size", "minors")},
        "distances random needs samples in observes",
    ),
    (
        BLOCKS,
        {"actions": ("malloc", "realloc"), "shared_bytes": 8},
        "realloc cannot be listed with",
    ),
    (PLAIN, {"observes": (*PLAIN["observes"], "tlab")}, "tlab in observes needs buffers of thread"),
    (
        PLAIN,
        {"seeds": (0, 0), "observes": (*PLAIN["observes"], "limit", "free", "top", "sample_point")},
        "limit cannot be listed with more than one thread",
    ),
    *[
        (
            CONTEXTS,
            {"counting": Contexts(64, sizes="reported"), "observes": observes},
            f"counting by contexts needs {field} in observes",
        )
        for field, observes in (
            ("at", ("samples", "minors", "buffer")),
            ("buffer", ("samples", "minors", "at")),
        )
    ],
    (
        CONTEXTS,
        {"actions": ("set_callback",), "observes": PLAIN["observes"]},
        "set_callback cannot be listed with counting by contexts",
    ),
    (STREAMS, {"observes": ("samples", "minors", "offsets")}, "offsets cannot be listed with coun"),
    (STREAMS, {"observes": ("minors",)}, "counting by streams needs samples in observes"),
    (BUFFERS, {"observes": ("samples", "minors")}, "counting by buffers needs at in observes"),
    (
        BUFFERS,
        {"observes": (*BUFFERS["observes"], "offsets")},
        "offsets cannot be listed with counting by buffers",
    ),
    (
        BUFFERS,
        {"counting": attrs.evolve(TLABS, taken="anywhere")},
        "counting by buffers needs buffer in observes",
    ),
    (
        BUFFERS,
        {"counting": attrs.evolve(TLABS, births="reseeds")},
        "counting by buffers needs seed in observes",
    ),
    (AT_ONCE, {"observes": ("samples", "minors")}, "run_at_once needs shares in observes"),
    (AT_ONCE, {"promises": ("collections",)}, "collections cannot be listed with run_at_once"),
    (
        AT_ONCE,
        {"observes": ("samples", "minors", "shares", "reports")},
        "reports cannot be listed with run_at_once",
    ),
    (AT_ONCE, {"actions": ("run_at_once", "end_thread")}, "end_thread cannot be listed with run_a"),
    (AT_ONCE, {"actions": ("run_at_once", "set_period")}, "set_period cannot be listed with at_on"),
]


@each_mistake(MISTAKES)
def test_a_mistake_in_a_contract_has_a_sentence(
    contract: Contract, blocks: Contract, mistake: Mistake
) -> None:
    assert first_problem(contract, blocks, mistake).startswith(mistake[2])
