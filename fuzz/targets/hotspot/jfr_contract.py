"""What JFR's `jdk.ObjectAllocationSample` does, and the machines that are driven for it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.counting import RetiredBuffers
from fuzz.protocol.layout import Layout
from fuzz.targets.hotspot.class_file import NODE, OBJECT, node_with
from fuzz.targets.hotspot.machines import (
    BUFFER_BYTES,
    COLLECTOR,
    G1,
    PARALLEL,
    SERIAL,
    SETTINGS_OF_KINDS,
    WASTE_INCREMENT_WORDS,
    process_setting,
)
from fuzz.targets.hotspot.structs import WORD_BYTES

COLLECTORS = (SERIAL, PARALLEL, G1)
HEAP = ("-Xms256m", "-Xmx256m", "-Xmn64m")
"""So large that no trace fills eden, and that each collection is an action."""
OBJECT_BYTES_MAX = 2**15
LARGE_OBJECT_BYTES = OBJECT_BYTES_MAX + 1
NURSERY_BYTES = 2**25
"""More than a trace allocates."""
PREDICTED = (SERIAL, PARALLEL)
"""The collectors whose buffers have the size that was asked for."""
WASTE_SHARE = "waste_share"
THREADS_MAX = 3
EACH_OR_ONE = "recordings"
EACH, ONE = range(2)
SETTINGS = (
    process_setting(COLLECTOR, *range(len(COLLECTORS))),
    process_setting("buffer_bytes", BUFFER_BYTES, 0, 8 * BUFFER_BYTES),
    Setting(WASTE_SHARE, 8, Range(8, 64), choices=(8, 64), of_process=True),
    Setting(EACH_OR_ONE, EACH, Range(EACH, ONE), choices=(EACH, ONE)),
    Setting("threads", 1, Range(1, THREADS_MAX), choices=(1, 2, THREADS_MAX)),
    *SETTINGS_OF_KINDS,
)
"""A buffer is given up if at most one in `waste_share` of its size is left. With `recordings` 0,
enabling starts a recording, and disabling ends it; with 1, they switch the event in one that runs
for the whole trace."""
ALWAYS = 2
SETTINGS_AS_DOCUMENTED = tuple(
    attrs.evolve(each, range=Range(EACH, ALWAYS), choices=(EACH, ONE, ALWAYS))
    if each.name == EACH_OR_ONE
    else each
    for each in SETTINGS
)
"""With `recordings` 2, sampling is on from the header on."""
SIZE_SHARE = 4
"""As documented, only a node can be larger than a quarter of a buffer, so that buffers hold several
objects."""
INCREMENTS = (0, 0, 1, 2)
"""How often the limit of what may be wasted has grown when a size of `boundary_bytes` leaves it."""
OBSERVES = ("samples", "weights", "minors", "size", "value", "identity", "graph", "contents")
EXCLUDED = (
    *(actions.SetPeriod, actions.Pin, actions.Unpin),
    *(actions.AllocateWeakref, actions.ReadWeakref),
)


def buffers_for(
    chosen: Mapping[str, int], desired_bytes: int, reserve_bytes: int, birth_bytes: int
) -> RetiredBuffers:
    """How bytes are counted. Without buffers their minimum is more than any object needs."""
    has_buffers = chosen["buffer_bytes"] > 0
    is_predicted = COLLECTORS[chosen[COLLECTOR]] in PREDICTED
    return RetiredBuffers(
        desired_bytes=desired_bytes,
        least_bytes=0 if has_buffers else 2 * OBJECT_BYTES_MAX,
        reserve_bytes=reserve_bytes,
        waste_bytes=desired_bytes // WORD_BYTES // chosen[WASTE_SHARE] * WORD_BYTES,
        waste_increment_bytes=WASTE_INCREMENT_WORDS * WORD_BYTES,
        birth_bytes=birth_bytes,
        sizes="stated" if is_predicted or not has_buffers else "reported",
    )


def contract(
    actions: tuple[str, ...], chosen: Mapping[str, int], layout: Layout, buffers: RetiredBuffers
) -> Contract:
    """The contract. The period is what an object outside must reach; 1 if there are no buffers.

    Behind the object that begins a buffer, one of `boundary_bytes` leaves about what may be wasted.
    """
    period_bytes = buffers.desired_bytes - buffers.reserve_bytes if chosen["buffer_bytes"] else 1
    return Contract(
        nursery_bytes=NURSERY_BYTES,
        layout=layout,
        actions=actions,
        observes=OBSERVES if buffers.sizes == "stated" else (*OBSERVES, "buffer"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=Range(period_bytes, period_bytes),
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            weights="since",
            disabling=("drop",),
            counting=buffers,
            seeds=(0,) * chosen["threads"],
        ),
        settings=SETTINGS,
        boundary_bytes=tuple(
            max(
                period_bytes - buffers.waste_bytes - times * buffers.waste_increment_bytes,
                WORD_BYTES,
            )
            for times in INCREMENTS
        ),
        batch=True,
    )


def as_documented(contract: Contract, chosen: Mapping[str, int]) -> Contract:
    """The contract that the event's documentation promises instead.

    The field's description in the metadata of 17 and 25 says: "Aggregating the weights for a large
    number of samples, for a particular class, thread or stack trace, gives a statistically accurate
    representation of the allocation pressure".
    """
    rule, buffers = contract.sampling, contract.sampling.counting
    assert isinstance(buffers, RetiredBuffers)
    is_always = chosen[EACH_OR_ONE] == ALWAYS
    layout = contract.layout
    if chosen["buffer_bytes"]:
        node_bytes = layout.kinds["node"].fixed_bytes
        most_bytes = max(node_bytes, buffers.desired_bytes // SIZE_SHARE)
        layout = attrs.evolve(layout, object_bytes_max=most_bytes)
    return attrs.evolve(
        contract,
        layout=layout,
        observes=OBSERVES,
        settings=SETTINGS_AS_DOCUMENTED,
        sampling=SamplingRule(
            period_bytes=rule.period_bytes,
            samples_per_allocation="one",
            weights="sums",
            own_bytes=buffers.birth_bytes if is_always else 0,
            disabling=("drop",),
            distances="unstated",
            seeds=rule.seeds,
            initial_period_bytes=rule.period_bytes.minimum if is_always else 0,
        ),
    ).without(("enable_sampling", "disable_sampling") if is_always else ())


def kinds_for(chosen: Mapping[str, int]) -> dict[str, str]:
    """The machine's names of the classes of each kind of object."""
    node = node_with(chosen["node_longs"])[0] if chosen["node_longs"] else NODE
    string = {1: "[B", 8: "[J"}[chosen["string_item_bytes"]]
    return {"node": node, "string": string, "array": f"[L{OBJECT};"}
