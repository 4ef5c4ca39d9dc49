"""The contract of PyPy's collector. Python 2.7 reads this module, too.

Two targets state it: the untranslated collector, and the one translated to C. All sizes are in
bytes, for words of 8 bytes.
"""
# Python 2.7 has no annotations.
# ruff: noqa: ANN001, ANN003, ANN201, RUF005
# mypy: ignore-errors


def setting(name, default, minimum, maximum, multiple=1, **more):
    """A setting of a header's `config`."""
    legal = {"minimum": minimum, "maximum": maximum, "multiple": multiple}
    return dict(more, name=name, default=default, range=legal)


SETTINGS = [
    setting("nursery_bytes", 256, 64, 8192, 8),
    setting("large_object_bytes", 64, 24, 8192, 8, at_most="nursery_bytes"),
    # Marking goes wrong between its steps.
    setting("single_step_marking", 0, 0, 1, choices=[0] + [1] * 7),
    setting("moving_nursery", 0, 0, 1),
    setting("prebuilt_nodes", 1, 0, 8),
    setting("prebuilt_arrays", 1, 0, 8),
]
"""What each build of the collector can set."""
KINDS = {
    "node": {"type_index": 1, "fixed_bytes": 32},
    "weakref": {"type_index": 2, "fixed_bytes": 16},
    "array": {"type_index": 3, "fixed_bytes": 16, "item_bytes": 8},
    "string": {"type_index": 4, "fixed_bytes": 25, "item_bytes": 1},
}
OBJECT_BYTES_MAX = 2**16
PERIOD_BYTES_MAX = 2**31 - 8
SAMPLES_MAX = 2 * OBJECT_BYTES_MAX // 8
"""More than the periods that any object spans."""
MINORS_MAX = 250
MINORS_PER_FIGURE = 4
"""Limits of an action's minor collections: in all, and per figure of the heap's graph, since a
marking step visits at least one object. An action beyond them never ends."""
PREBUILT_ARRAY_LENGTH = 4
ACTIONS = (
    ("allocate_node", "allocate_string", "allocate_array", "allocate_weakref")
    + ("allocate_old_string", "load_prebuilt", "free", "read", "read_number", "read_weakref")
    + ("write", "write_number", "copy_array", "fill_array", "move_array", "take_identity")
    + ("pin", "unpin", "set_callback")
    + ("add_memory_pressure", "collect_minor", "collect_progress", "collect_step", "collect_full")
    + ("check_heap",)
)
SAMPLING_ACTIONS = ("enable_sampling", "disable_sampling", "fork")
"""The actions that only a collector that samples carries out."""
FINALIZER_ACTIONS = ("register_finalizer", "unregister_finalizer", "run_finalizers", "resurrect")
FINALIZERS = {
    "order": "referrer_first",
    "cycles": "first_registered",
    "weak": "cleared_before",
    "unregistering": "all",
    "destructors": True,
}
"""What pypy/doc/discussion/finalizer-order.txt promises, and what the collector does in cycles."""
SAMPLING_FIELDS = ("reports", "sample_point")
FIELDS = (
    ("samples", "minors", "order", "size", "outside", "at", "value", "alive", "identity")
    + ("graph", "free", "limit", "top", "state", "memory")
    + SAMPLING_FIELDS
)
PROMISES = ["collections", "memory", "progress", "pressure"]
ARENAS = {"arena_object_bytes_max": 40, "arena_bytes": 512, "arena_pages": 3, "page_room_bytes": 96}
"""The defaults of IncrementalMiniMarkGC. Its start costs each arena one page."""
THRESHOLD_PERCENT = 250
"""The default growth of the heap between two major collections."""


def actions_of(has_sampling):
    """The names of the actions that a collector carries out."""
    return ACTIONS + (SAMPLING_ACTIONS if has_sampling else ())


def pins_max(nursery_bytes, large_object_bytes):
    """How many pinned objects leave room for any young object; the collector allows more."""
    largest_bytes = -(-large_object_bytes // 8) * 8
    return max(nursery_bytes // largest_bytes - 1, 0) // 2


def contract_of(config, has_sampling, settings, old_space, threshold_percent=THRESHOLD_PERCENT):
    """The contract under this configuration. `old_space` has the figures of arenas and cards."""
    nursery_bytes, large_object_bytes = config["nursery_bytes"], config["large_object_bytes"]
    contract = {
        "nursery_bytes": nursery_bytes,
        "layout": {
            "kinds": KINDS,
            "large_object_bytes": large_object_bytes,
            "word_bytes": 8,
            "object_bytes_max": OBJECT_BYTES_MAX,
        },
        "settings": settings,
        "actions": sorted(actions_of(has_sampling)),
        "observes": [name for name in FIELDS if has_sampling or name not in SAMPLING_FIELDS],
        "prebuilt": [{"kind": "node"}] * config["prebuilt_nodes"]
        + [{"kind": "array", "length": PREBUILT_ARRAY_LENGTH}] * config["prebuilt_arrays"],
        "pins_max": pins_max(nursery_bytes, large_object_bytes),
        "promises": PROMISES,
        "weak_reads": "kept",
        "version": "which samples" if has_sampling else "which does not sample",
        "old_space": dict(
            old_space,
            threshold_bytes=nursery_bytes * threshold_percent // 100,
            threshold_percent=threshold_percent,
        ),
    }
    if has_sampling:
        periods = {"minimum": 8, "maximum": PERIOD_BYTES_MAX, "multiple": 8}
        contract["sampling"] = {"period_bytes": periods}
    return contract


HEAP_NURSERIES = setting("heap_nurseries", 4, 1, 6)
"""The limit of `incminimark-exhaustion`, in nurseries. The first threshold is two and a half of
them, and grows by as much, so that no major collection leaves it below the limit in secret."""


def with_finalizers(contract):
    """The same contract for a collector with finalizers."""
    return dict(
        contract,
        actions=sorted(contract["actions"] + list(FINALIZER_ACTIONS)),
        observes=contract["observes"] + ["finalized"],
        finalizers=FINALIZERS,
    )


def with_exhaustion(contract, heap_bytes_max):
    """The same contract for a collector with finalizers and a greatest heap size (PYPY_GC_MAX).

    "If that is not enough, then immediately abort the program" (incminimark.py): it survives once.
    For an object outside the nursery, it reserves half a nursery more.
    """
    result, reserved_bytes = with_finalizers(contract), contract["nursery_bytes"] // 2
    space = contract["old_space"]
    return dict(
        result,
        actions=[name for name in result["actions"] if name not in ("pin", "unpin")],
        observes=result["observes"] + ["exhausted"],
        old_space=dict(space, threshold_bytes=min(space["threshold_bytes"], heap_bytes_max)),
        exhaustion={
            "heap_bytes_max": heap_bytes_max - reserved_bytes,
            "overshoot_bytes": reserved_bytes,
            "found_by": "major_collections",
            "survivable": 1,
        },
    )


COMPILED_LARGE_BYTES, COMPILED_CARD_ITEMS = 256, 4
"""Constants of the machine code of incminimark-jit."""
GUARDS_MAX = 3
COMPILED_SETTINGS = [
    setting("nursery_bytes", COMPILED_LARGE_BYTES, COMPILED_LARGE_BYTES, 1024, 8),
    setting("large_object_bytes", *(3 * [COMPILED_LARGE_BYTES])),
    setting("optimizations", 1, 0, 2, choices=[0, 1, 1, 1, 2, 2, 2]),
    setting("operands_in_memory", 0, 0, 1, choices=[0, 0, 1]),
    setting("failing_guards", 0, 0, GUARDS_MAX, choices=[0, 0, 1, GUARDS_MAX]),
    setting("exceptions", 0, 0, 1, choices=[0, 0, 1]),
    setting("repaired", 3, 3, 3),
    setting("single_step_marking", 0, 0, 0),
] + SETTINGS[3:]
"""The nursery is small, so that a short trace fills it. Marking never takes single steps, since the
JIT has many objects. `optimizations`: no JIT; those
that keep the order of allocations; all. `operands_in_memory`: of lengths and indexes of items.
`failing_guards`: how many there are in the answered round, each of which leads to a bridge.
`exceptions`: whether the call after an allocation raises one. `repaired`: the lost write (1), the
limit of young arrays (2), or both (3)."""
AS_SHIPPED = setting("repaired", 3, 0, 3)
COMPILED_ACTIONS = (
    ("allocate_node", "allocate_string", "allocate_array", "load_prebuilt", "free", "read")
    + ("read_number", "write", "write_number", "take_identity", "collect_minor")
    + ("collect_progress", "collect_step", "collect_full", "check_heap")
)
IN_ORDER_ACTIONS = ("allocate_weakref", "read_weakref", "check_contents")
UNPREDICTED = ("state", "memory")
"""The JIT's own objects are in the old space."""
GROUPS = {
    "bytes_max": COMPILED_LARGE_BYTES - 8,
    "members_max": 5,
    "kinds": ["node", "array", "string"],
    "sampled": "first",
}
"""The JIT reserves a block for neighbours that are small together."""
WITHOUT_REPORTS = {"disabling": ["drop"]}
OF_HEAP = ("minors", "value", "identity", "graph")


def compiled(contract, has_reports):
    """The same contract for machine code of the JIT.

    Reports show which member of a group a sample names. If there are none, the driver does.
    """
    hidden = UNPREDICTED if has_reports else UNPREDICTED + ("reports",)
    observes = [name for name in contract["observes"] if name not in hidden]
    if not has_reports:
        contract = dict(contract, sampling=dict(contract["sampling"], **WITHOUT_REPORTS))
        observes.append("samples_by_member")
    actions = COMPILED_ACTIONS + IN_ORDER_ACTIONS + SAMPLING_ACTIONS[:2]
    return dict(
        contract,
        actions=[name for name in contract["actions"] if name in actions] + ["allocate_group"],
        observes=observes,
        promises=["collections"],
        old_space={},
        weak_reads="answered",
        pins_max=0,
        batch=True,
        groups=GROUPS,
        tier_setting="optimizations",
    )


def of_heap(contract):
    """What is promised if allocations may move and vanish: the heap, and what is read from it."""
    actions = sorted(COMPILED_ACTIONS + ("allocate_group",))
    result = dict(contract, actions=actions, observes=list(OF_HEAP), promises=[])
    result.pop("sampling", None)
    return result


def with_pins(contract):
    """The same contract with pins, whose legality depends on answers. So no trace is sent ahead."""
    return dict(contract, actions=sorted(contract["actions"] + ["pin", "unpin"]))


def interpreted(contract):
    """What is promised without the JIT: each member of a group is an allocation."""
    observes = [name for name in contract["observes"] if name != "samples_by_member"]
    groups = dict(GROUPS, counted="each", sampled="containing")
    return dict(contract, observes=observes + ["members"], groups=groups)


def as_documented(contract):
    """The same contract by the paper's section 3.5, and by incminimark's limit of young objects."""
    settings = [AS_SHIPPED if each["name"] == "repaired" else each for each in contract["settings"]]
    groups = dict(contract["groups"], sampled="containing")
    return dict(contract, settings=settings, groups=groups)
