"""A trigger of each known bug, and a near miss: a similar scenario that does not trigger it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuzz.failure import Failure
from fuzz.mutator.legality import why_illegal
from fuzz.oracles import RERUN_ORACLES
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action, Member
from fuzz.run import Run, run_actions
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

Scenario = list[Any]
"""The actions, after the settings if there are any."""

NODE, STRING = do.AllocateNode(0), do.AllocateString(0)  # 32 bytes each
ARRAY = do.AllocateArray(1)
MINOR, STEP, FULL = do.CollectMinor(), do.CollectStep(), do.CollectFull()
OFF = do.DisableSampling()
EVERY_8 = do.EnableSampling(8)
NODE_MEMBER = Member("node")
ONE_NODE, TWO_NODES = do.AllocateGroup((NODE_MEMBER,)), do.AllocateGroup((NODE_MEMBER, NODE_MEMBER))
SINGLE_STEP = {"single_step_marking": 1}
MOVING = {"moving_nursery": 1}
SEED_OF_PAGES = {"period_bytes": 2**19, "sampler_seed": 64}
SMALL = {"nursery_bytes": 128, "large_object_bytes": 64}
TINY = {"nursery_bytes": 64, "large_object_bytes": 64}
COPY = do.CopyArray(0, 1, 0, 0, 1)
MARKED_BLACK: Scenario = [
    *(SINGLE_STEP, ARRAY, NODE, do.Write(0, 0, 1), do.Free(1), ARRAY, STEP, STEP)
]
"""A white array with the only reference to a node, and a black array."""
LARGE = do.AllocateArray(33)
LARGE_MARKED_BLACK = [SINGLE_STEP, LARGE, NODE, do.Write(0, 0, 1), do.Free(1), LARGE, STEP, STEP]
"""The same with arrays of cards, the last one in another byte."""
PARENT_OF_PINNED = [SINGLE_STEP, STRING, do.Pin(0), NODE, do.Write(1, 0, 0), STEP, STEP]
"""A black node that refers to a pinned string, while marking."""

CARDED = do.AllocateArray(6)
WRITTEN_YOUNG = [ARRAY, do.AllocateNode(0, thread=1), do.Write(0, 0, 1, thread=1)]
"""In the smallest nursery, the node's context makes the array old."""
ENDED = do.EndThread(thread=1)

PAUSE, RESUME = do.PauseSampling(), do.ResumeSampling()
MIB, PAGE_BYTES = 2**20, 8192
EMPTY = do.AllocateArray(0)
MIB_STRING = do.AllocateString(MIB - 25)
MIB_LESS_EMPTY = do.AllocateString(MIB - 25 - 16)
"""With an array without items it takes a mebibyte."""
SEED_OF_256 = 38
"""The first distance of this seed is a multiple of 256 for a period of 512."""
SEED_OF_LONG = 234248
"""The first distance of this seed is more than 4.85 periods."""
OTHER_SEED = {"threads": 2, "sampler_seed": 5}
TLABS_OF_A_NODE = {"desired_bytes": 32, "reserve_bytes": 32}
NO_TLABS = {"desired_bytes": 32, "reserve_bytes": 40}
LONG_STRING = do.AllocateString(767)
"""Too long for a TLAB of the default size."""
EACH_BYTE = {"period_bytes": 1}
SAMPLED_BY_8 = {"period_bytes": 8, "sampler_seed": 1}
SMALL_EDEN = {"desired_bytes": 32}
OUTSIDE, WIDE = do.AllocateNode(0, nonmovable=True), do.AllocateString(31)
CALLBACK = (do.SetCallback(31), do.EnableSampling(1024))
PREBUILT = (ARRAY, do.Write(0, 0, 0), MINOR, do.LoadPrebuilt(1))
PREBUILT_COPY = (do.LoadPrebuilt(1), do.CopyArray(0, 0, 0, 0, 1))
CHILD_ONLY = (NODE, do.Write(0, 0, 1), do.Free(1))
AT_TOP = (do.EnableSampling(264), do.AllocateString(215))
LOST_AND_FULL = (do.Write(0, 0, None), FULL)
PROFILE, CONTENTS = do.ReadProfile(), do.CheckContents()
BEYOND_THRESHOLD = do.AllocateArray(79)
"""It takes a word more than the first threshold, 640 bytes."""
ONLY_IN_PERMANENT = (do.LoadPrebuilt(0), NODE, do.Write(0, 0, 1), do.Free(0))
"""A prebuilt node refers to a node, which is the only root."""
SMALLEST, MIB_BLOCK = do.Malloc(0), do.Malloc(MIB - 1)
"""The block takes a mebibyte too."""
DEAD = [NODE, do.RegisterFinalizer(0, 0), do.Free(0), FULL]
"""A node whose finalizer is pending."""
RUN, KEEP = do.RunFinalizers(), do.RunFinalizers(keep=True)
TWO = [NODE, NODE, do.RegisterFinalizer(0, 0), do.RegisterFinalizer(1, 1)]
BOTH_FREED = [do.Free(0), do.Free(0)]
DESTRUCTIBLE = do.AllocateNode(0, destructor=0)
WEAK = do.AllocateWeakref(0)
TWO_WEAK = [do.AllocateNode(1), WEAK, do.AllocateWeakref(1), MINOR]
"""Old weak references to a node and to the other one."""
KEPT_WEAKREF = [
    *(NODE, do.RegisterFinalizer(0, 0), WEAK, do.Write(0, 0, 1), do.Free(0), do.Free(0), FULL)
]
"""Only a node whose finalizer is pending has a weak reference, to itself."""
CHAIN = [do.AllocateEphemeron(each, each + 1) for each in (2, 1, 0)]
"""The value of each ephemeron is the key of the one before."""

FULL_HEAP = do.AllocateString(872)
"""With the half of a nursery that is reserved, its 904 bytes exceed the limit, 1024 bytes."""
SMALL_HEAP = {"nursery_bytes": 64, "heap_nurseries": 1}
OLD_STRINGS = [do.AllocateString(200), do.AllocateString(400), FULL, do.Free(1)]
"""A string of 232 bytes, and one of 432 that is dead and not freed."""

TRIGGERS: dict[str, Scenario] = {
    "disable-before-enable": [OFF],
    "one-sample-per-object": [EVERY_8, NODE],
    "stale-limit-after-large": [*AT_TOP, do.AllocateString(0, nonmovable=True)],
    "pressure-taken-for-sample": [EVERY_8, do.AddMemoryPressure(640), NODE],
    "second-minor-reads-null": [TINY, *CALLBACK, WIDE, WIDE],
    "fork-keeps-young-samples": [EVERY_8, NODE, do.Fork(), EVERY_8, MINOR],
    "rotating-nursery-old-limit": [MOVING, EVERY_8, MINOR],
    "enable-beside-old-obstacle": [STRING, do.Pin(0), MINOR, do.Unpin(0), EVERY_8, NODE],
    "nonyoung-reported-dead": [EVERY_8, do.AllocateOldString(0), MINOR],
    "restart-loses-period": [EVERY_8, do.PauseSampling(), do.ResumeSampling()],
    "sample-on-equality": [do.EnableSampling(32), NODE],
    "sample-point-stays": [do.EnableSampling(40), NODE, MINOR],
    "large-objects-uncounted": [EVERY_8, OUTSIDE],
    "sampled-bytes-count-twice": [EVERY_8, do.AllocateString(280), OUTSIDE],
    "arraycopy-skips-barrier-while-marking": [*MARKED_BLACK, COPY, *LOST_AND_FULL],
    "arraycopy-clean-cards": [*LARGE_MARKED_BLACK, do.Write(0, 32, None), COPY, *LOST_AND_FULL],
    "arraycopy-prebuilt": [*PREBUILT, COPY, do.Free(0), FULL],
    "write-after-prebuilt-copy": [do.CollectStep(), *PREBUILT_COPY, *CHILD_ONLY, FULL],
    "arrayfill-skips-barrier": [do.LoadPrebuilt(1), NODE, do.FillArray(0, 1), MINOR],
    "arraymove-keeps-cards": [LARGE, NODE, do.Write(0, 0, 1), do.MoveArray(0, 0, 32, 1), MINOR],
    "pinned-shadow-visited": [STRING, do.Pin(0), do.TakeIdentity(0), FULL, do.Unpin(0), MINOR],
    "pinned-white-object": [*PARENT_OF_PINNED, do.Unpin(0), do.Free(0), FULL],
    "stale-nursery-pointer": [do.AllocateArray(6), NODE, do.Write(0, 5, 1), MINOR],
    "forgotten-remembered-entry": [NODE, MINOR, NODE, do.Write(0, 0, 1), MINOR],
    "age-overflows": [NODE, do.TakeIdentity(0), *[FULL] * 16, do.TakeIdentity(0)],
    "shadow-keeps-number": [NODE, do.TakeIdentity(0), do.WriteNumber(0, 1), MINOR],
    "word-lost-by-large": [OUTSIDE],
    "move-cuts-string": [do.AllocateString(17), MINOR, CONTENTS],
    "weak-read-takes-neighbour": [*TWO_WEAK, do.ReadWeakref(1, keep=True), do.ReadNumber(3)],
    "realloc-copies-a-word": [do.Malloc(9), do.Realloc(0, 9), CONTENTS],
    "resize-in-place-clears-end": [do.Malloc(24), do.Realloc(0, 23), CONTENTS],
    "free-list-link-in-live-block": [do.Malloc(12), do.Malloc(12), CONTENTS],
    "callback-runs-twice": [TINY, do.SetCallback(8), STRING, do.AllocateString(8)],
    "first-offset-mask": [do.EnableSampling(16)],
    "first-word-never": [EVERY_8],
    "trigger-below-start": [do.EnableSampling(120)],
    "fixed-stride-bias": [do.EnableSampling(MIB), MIB_STRING, EMPTY, *[MIB_LESS_EMPTY, EMPTY] * 3],
    "outside-tlab-desync": [{"first_bytes": 900}, EVERY_8, NODE, LONG_STRING],
    "flush-only-at-refill": [EVERY_8, NODE, EMPTY],
    "outside-drawn-apart": [{"sampler_seed": 1}, NODE, EVERY_8, OUTSIDE],
    "enabling-draws": [NODE, EVERY_8, NODE],
    "toggle-kills-sampling": [PAUSE, do.Malloc(10241), RESUME, do.Malloc(8193)],
    "samples-while-suspended": [PAUSE, do.Malloc(10241)],
    "rollback-keeps-threshold": [SMALLEST, do.Realloc(0, 10241), SMALLEST],
    "slow-path-counts-twice": [{"sampler_seed": 1}, do.Malloc(1537)],
    "large-allocs-skew-counter": [SEED_OF_PAGES, do.Malloc(458753), do.Malloc(413838)],
    "forced-large-sample": [{"period_bytes": 2**18}, do.Malloc(266960)],
    "sum-then-unbias": [SAMPLED_BY_8, SMALLEST, do.Malloc(49), PROFILE],
    "zero-size-wraps": [do.Malloc(MIB - PAGE_BYTES + 1)],
    "placeholder-first-interval": [do.Malloc(513)],
    "reseed-drops-sample": [do.Malloc(513)],
    "class-size-vs-request": [do.Malloc(513), PROFILE],
    "dropped-sample-keeps-weight": [EACH_BYTE, *[SMALLEST] * 4],
    "sample-eats-guard-budget": [EVERY_8, STRING, do.AllocateString(104)],
    "recorded-type-unrooted": [EVERY_8, STRING, do.Free(0), MINOR],
    "deaf-after-enable": [NODE, EVERY_8, NODE],
    "stale-bytes-after-enable": [TLABS_OF_A_NODE, NODE, EVERY_8, NODE],
    "retired-buffer-charged": [{"first_bytes": 72}, EVERY_8, NODE, MINOR, NODE],
    "shared-generator-reseeded": [OTHER_SEED, EVERY_8, do.AllocateString(39, thread=1)],
    "only-starting-thread": [STRING, do.EnableSampling(MIB, thread=1), STRING],
    "uninitialised-thread-sampled": [SMALLEST],
    "marker-size": [EACH_BYTE, do.Malloc(96)],
    "realloc-keeps-old-sample": [EACH_BYTE, SMALLEST, do.Realloc(0, 1), PROFILE],
    "realloc-frees-new-pointer": [EACH_BYTE, SMALLEST, do.Realloc(0, 1), PROFILE],
    "resize-stale-context": [do.Malloc(8192), do.Realloc(0, 8192), PROFILE],
    "snapshot-counts-history": [EACH_BYTE, SMALLEST, PROFILE, PROFILE],
    "live-size-unweighted": [do.Malloc(513), PROFILE],
    "crossings-as-weight": [do.Malloc(513), PROFILE],
    "rate-change-mixes-weights": [do.Malloc(513), do.SetPeriod(1024), MIB_BLOCK, PROFILE],
    "first-event-wrong-weight": [MIB_BLOCK],
    "weight-since-last-sample": [MIB_BLOCK],
    "clamped-weight-vanishes": [MIB_BLOCK],
    "size-raised-to-interval": [MIB_BLOCK],
    "zero-draw-stops-sampling": [{"sampler_seed": SEED_OF_LONG}, MIB_BLOCK],
    "rate-one-samples-nothing": [EACH_BYTE, SMALLEST],
    # Published in 2025 and 2026.
    "barrier-not-emitted": [do.AllocateArray(6), NODE, do.Write(0, 0, 1), MINOR],
    "frame-top-without-barrier": [do.AllocateArray(6), NODE, do.Write(0, 5, 1), MINOR],
    "visitor-skips-permanent": [*ONLY_IN_PERMANENT, do.Free(0), FULL],
    "collector-stops-starting": [FULL, FULL, BEYOND_THRESHOLD],
    "process-size-defers": [BEYOND_THRESHOLD],
    "expected-collection-missed": [FULL, BEYOND_THRESHOLD],
    "off-bytes-charged": [OUTSIDE, EVERY_8],
    "flush-advances-sampler": [{"sampler_seed": 8}, PROFILE, do.Malloc(641)],
    "one-counter-for-all": [{"sampler_seed": 1}, do.Malloc(1025, thread=1)],
    "address-in-seed": [{"sampler_seed": 1}, do.Malloc(3073)],
    "thread-slots-not-zeroed": [{"threads": 3}, do.Malloc(0, thread=2)],
    "counted-in-two-domains": [{"sampler_seed": 5}, do.Calloc(1, 897)],
    "one-layer-corrected": [EACH_BYTE, SMALLEST, PROFILE],
    "reused-class-estimate": [EACH_BYTE, do.Malloc(9), PROFILE],
    "forced-sample-leaves-weight": [
        {"sampler_seed": 1},
        SMALLEST,
        do.Realloc(0, 1155),
        do.Malloc(294),
    ],
    "refused-sample-vanishes": [do.Malloc(1024)],
    "absorbing-generator-state": [{"sampler_seed": 7}, do.Malloc(15933), SMALLEST],
    "finalizers-in-wrong-order": [*TWO, do.Write(1, 0, 0), *BOTH_FREED, FULL, RUN],
    "wrong-index-drops-finalizer": [*TWO, do.Free(0), FULL, do.Free(0), FULL],
    "resurrection-blocks-sweep": [
        *(*DEAD, KEEP, NODE, do.RegisterFinalizer(0, 1), do.Free(0), FULL, RUN)
    ],
    "finalized-bit-reset": [*DEAD, KEEP, RUN, FULL],
    "one-list-searched": [*DEAD[:2], MINOR, do.UnregisterFinalizer(0), do.Free(0), FULL],
    "pending-not-rooted": [*DEAD, FULL],
    "entry-removed-before-run": [*DEAD, FULL, RUN],
    "decided-before-promotion": [
        *(NODE, MINOR, *DEAD[:1], do.RegisterFinalizer(1, 0), do.Write(0, 0, 1), do.Free(1), MINOR),
        RUN,
    ],
    "finalizer-table-not-updated": [*DEAD[:2], FULL],
    "destructor-of-kept-object": [DESTRUCTIBLE, do.RegisterFinalizer(0, 1), do.Free(0), FULL, RUN],
    "destructor-lost-in-promotion": [DESTRUCTIBLE, MINOR, do.Free(0), FULL, RUN],
    "weakref-shows-finalized": [*DEAD[:2], WEAK, do.Free(0), FULL, RUN, do.ReadWeakref(0)],
    "group-named-first": [do.EnableSampling(40), TWO_NODES],
    "group-member-sampled-once": [do.EnableSampling(16), TWO_NODES],
    "ended-thread-loses-log": [TINY, *WRITTEN_YOUNG, ENDED, MINOR],
    "ended-thread-loses-cards": [CARDED, MINOR, NODE, do.Write(0, 0, 1, thread=1), ENDED, MINOR],
    "collection-sees-one-log": [TINY, *WRITTEN_YOUNG, MINOR],
    "group-one-word-short": [TWO_NODES],
    "group-reserved-in-parts": [{"nursery_bytes": 136}, NODE, NODE, NODE, TWO_NODES],
    "group-checked-by-first": [EVERY_8, TWO_NODES],
    "array-reserved-at-once": [SMALL_EDEN, EMPTY],
    "array-before-its-items": [EMPTY],
    "exhausted-by-garbage": [*OLD_STRINGS, do.AllocateString(400)],
    "limit-never-compared": [SMALL_HEAP, STRING, do.AllocateString(8), FULL],
    "exhaustion-drops-pending": [*DEAD, FULL_HEAP, RUN],
    "exhaustion-ends-in-sweep": [FULL_HEAP],
    "exhausted-allocation-counts": [EVERY_8, FULL_HEAP],
    "new-weakref-not-cleared": [
        *(*DEAD, KEEP, do.Resurrect(0), WEAK, do.Free(0), RUN, FULL, do.ReadWeakref(0))
    ],
    "resurrected-weakrefs-unprocessed": [
        *(*KEPT_WEAKREF, KEEP, do.Resurrect(0), do.Read(0, 0), do.ReadWeakref(1))
    ],
    "weak-to-freed-object": [*DEAD[:2], WEAK, do.Free(0), FULL, RUN, do.ReadWeakref(0)],
    "ephemeron-value-without-barrier": [
        *(NODE, MINOR, NODE, do.AllocateEphemeron(0, 1), MINOR, do.ReadEphemeron(2))
    ],
    "ephemeron-stale-after-move": [NODE, do.AllocateEphemeron(0, 0), MINOR, do.ReadEphemeron(1)],
    "ephemeron-chain-not-followed": [*[NODE] * 4, *CHAIN, *[do.Free(1)] * 3, FULL],
}
NEAR_MISSES: dict[str, Scenario] = {
    # Sampling was enabled before.
    "disable-before-enable": [EVERY_8, OFF, OFF],
    # The object passes one sample point only.
    "one-sample-per-object": [do.EnableSampling(16), NODE],
    # The sample point moves to the nursery's end, not past it.
    "stale-limit-after-large": [*AT_TOP, OUTSIDE],
    # Sampling is off, so that the limit is the nursery's end.
    "pressure-taken-for-sample": [do.AddMemoryPressure(640), NODE],
    # The object fits behind what the callback allocated.
    "second-minor-reads-null": [SMALL, *CALLBACK, *[WIDE] * 3],
    # The child is not sampled.
    "fork-keeps-young-samples": [EVERY_8, NODE, do.Fork(), MINOR],
    # The nursery stays where it is.
    "rotating-nursery-old-limit": [EVERY_8, MINOR],
    # The obstacle is gone.
    "enable-beside-old-obstacle": [STRING, do.Pin(0), MINOR, do.Unpin(0), MINOR, EVERY_8, NODE],
    # It is young, and the minor collection visits it.
    "nonyoung-reported-dead": [EVERY_8, OUTSIDE, MINOR],
    # It is enabled again.
    "restart-loses-period": [EVERY_8, do.PauseSampling(), EVERY_8],
    # It ends a word before the sample point.
    "sample-on-equality": [do.EnableSampling(40), NODE],
    # Nothing was allocated before the minor collection.
    "sample-point-stays": [do.EnableSampling(40), MINOR],
    # It is in the nursery.
    "large-objects-uncounted": [EVERY_8, NODE],
    # Sampling is on, and no large object is sampled.
    "sampled-bytes-count-twice": [do.EnableSampling(1024), do.AllocateString(280), OUTSIDE],
    # The source was written since the last minor collection, which cleared its flag.
    "arraycopy-skips-barrier-while-marking": [
        *(*MARKED_BLACK, do.Write(0, 0, 0), COPY, *LOST_AND_FULL)
    ],
    # The dirty card is in the copied byte.
    "arraycopy-clean-cards": [*LARGE_MARKED_BLACK, do.Write(0, 31, None), COPY, *LOST_AND_FULL],
    # The prebuilt array was written before, so that it is a root.
    "arraycopy-prebuilt": [*PREBUILT, do.Write(1, 1, 0), COPY, do.Free(0), FULL],
    # Nothing marks, so that the copy leaves the barrier to the write.
    "write-after-prebuilt-copy": [*PREBUILT_COPY, *CHILD_ONLY, FULL],
    # The node is old.
    "arrayfill-skips-barrier": [do.LoadPrebuilt(1), NODE, MINOR, do.FillArray(0, 1), MINOR],
    # The card is dirty already.
    "arraymove-keeps-cards": [LARGE, NODE, do.Write(0, 0, 1), do.MoveArray(0, 0, 3, 1), MINOR],
    # It is unpinned before the major collection.
    "pinned-shadow-visited": [STRING, do.Pin(0), do.TakeIdentity(0), do.Unpin(0), FULL, MINOR],
    # It is still a root, which marking visits again.
    "pinned-white-object": [*PARENT_OF_PINNED, do.Unpin(0), FULL],
    # The card is complete.
    "stale-nursery-pointer": [do.AllocateArray(6), NODE, do.Write(0, 3, 1), MINOR],
    # The object is still young.
    "forgotten-remembered-entry": [NODE, NODE, do.Write(0, 0, 1), MINOR],
    # It was written before its identity was taken.
    "shadow-keeps-number": [NODE, do.WriteNumber(0, 1), do.TakeIdentity(0), MINOR],
    # It is younger.
    "age-overflows": [NODE, do.TakeIdentity(0), *[FULL] * 15, do.TakeIdentity(0)],
    # It is in the nursery.
    "word-lost-by-large": [NODE],
    # Nothing is kept, and both are alive.
    "weak-read-takes-neighbour": [*TWO_WEAK, do.ReadWeakref(1), do.CheckHeap()],
    # It has two words.
    "move-cuts-string": [do.AllocateString(16), MINOR, CONTENTS],
    # It has one word.
    "realloc-copies-a-word": [do.Malloc(8), do.Realloc(0, 8), CONTENTS],
    # It moves.
    "resize-in-place-clears-end": [do.Malloc(24), do.Realloc(0, 11), CONTENTS],
    # They have different classes.
    "free-list-link-in-live-block": [do.Malloc(12), do.Malloc(24), CONTENTS],
    # Its string fills a quarter of the nursery, and no more.
    "callback-runs-twice": [
        {"nursery_bytes": 128, "large_object_bytes": 64},
        *(do.SetCallback(7), *[do.AllocateString(31)] * 3),
    ],
    # The first distance is a multiple of 256.
    "first-offset-mask": [{"sampler_seed": SEED_OF_256}, do.EnableSampling(512), NODE],
    # Sampling never starts.
    "first-word-never": [PAUSE, NODE],
    # The sample point is in the nursery.
    "trigger-below-start": [EVERY_8, NODE],
    # The program is not in step with the stride.
    "fixed-stride-bias": [do.EnableSampling(MIB), *[MIB_LESS_EMPTY] * 8],
    # The thread has no TLAB.
    "outside-tlab-desync": [{"first_bytes": 900}, EVERY_8, LONG_STRING, NODE],
    # Every object refills.
    "flush-only-at-refill": [{"context_bytes": 8}, EVERY_8, NODE, EMPTY],
    # The thread has no context yet.
    "outside-drawn-apart": [{"sampler_seed": 1}, EVERY_8, OUTSIDE],
    # Nothing is allocated after enabling.
    "enabling-draws": [NODE, EVERY_8],
    # No wait ends while sampling is off.
    "toggle-kills-sampling": [PAUSE, SMALLEST, RESUME, do.Malloc(10241)],
    "samples-while-suspended": [PAUSE, SMALLEST, RESUME, do.Malloc(10241)],
    # The resized block is not sampled.
    "rollback-keeps-threshold": [SMALLEST, do.Realloc(0, 16), SMALLEST],
    # The cache has a block.
    "slow-path-counts-twice": [do.Malloc(8), do.Malloc(8)],
    # The large block is sampled.
    "large-allocs-skew-counter": [{"period_bytes": 1}, do.Malloc(2**19), SMALLEST],
    # It is smaller than the period.
    "forced-large-sample": [{"period_bytes": 2**18}, do.Malloc(2**18 - 2**15)],
    # All blocks are of one size.
    "sum-then-unbias": [SAMPLED_BY_8, do.Malloc(49), do.Malloc(49), PROFILE],
    # There are fewer pages than wrap.
    "zero-size-wraps": [do.Malloc(MIB - PAGE_BYTES)],
    # No sample is due yet.
    "placeholder-first-interval": [do.Malloc(256)],
    # The second distance ends in the block too.
    "reseed-drops-sample": [do.Malloc(MIB)],
    # The block is as large as its class.
    "class-size-vs-request": [do.Malloc(576), PROFILE],
    # There is room for these samples.
    "dropped-sample-keeps-weight": [EACH_BYTE, *[SMALLEST] * 3],
    # No object is sampled.
    "sample-eats-guard-budget": [do.EnableSampling(MIB), STRING, do.AllocateString(104)],
    # It survives.
    "recorded-type-unrooted": [EVERY_8, STRING, MINOR],
    # The object has another TLAB.
    "deaf-after-enable": [EVERY_8, do.AllocateString(39), NODE, do.AllocateString(103)],
    # It is outside the TLAB.
    "stale-bytes-after-enable": [NO_TLABS, NODE, EVERY_8, NODE],
    # The TLAB was used up.
    "retired-buffer-charged": [{"first_bytes": 72, **TLABS_OF_A_NODE}, EVERY_8, NODE, MINOR, NODE],
    # The thread exists from the start.
    "shared-generator-reseeded": [OTHER_SEED, EVERY_8, do.AllocateString(39)],
    # The thread that enables sampling allocates.
    "only-starting-thread": [STRING, do.EnableSampling(MIB), STRING],
    # It is sampled correctly.
    "uninitialised-thread-sampled": [EACH_BYTE, SMALLEST],
    # It is of the next class.
    "marker-size": [EACH_BYTE, do.Malloc(97)],
    # Nothing is sampled.
    "realloc-keeps-old-sample": [SMALLEST, do.Realloc(0, 1), PROFILE],
    # The old block is sampled.
    "realloc-frees-new-pointer": [do.Malloc(10241), do.Realloc(0, 1), PROFILE],
    # It is moved.
    "resize-stale-context": [do.Malloc(8192), do.Realloc(0, 8193), PROFILE],
    # There is no earlier profile.
    "snapshot-counts-history": [EACH_BYTE, SMALLEST, PROFILE],
    # Each block is sampled with its own size.
    "live-size-unweighted": [EACH_BYTE, do.Malloc(513), PROFILE],
    # It is sampled, and dead.
    "crossings-as-weight": [do.Malloc(513), do.Free(0), PROFILE],
    # Nothing is sampled with the other period.
    "rate-change-mixes-weights": [do.Malloc(513), do.SetPeriod(1024), PROFILE],
    # No sample is due yet.
    "first-event-wrong-weight": [SMALLEST],
    "weight-since-last-sample": [SMALLEST],
    "size-raised-to-interval": [SMALLEST],
    # The weight is below the limit.
    "clamped-weight-vanishes": [do.Malloc(2**15)],
    # The number has other bits.
    "zero-draw-stops-sampling": [MIB_BLOCK],
    # The period is two bytes.
    "rate-one-samples-nothing": [{"period_bytes": 2}, do.Malloc(16)],
    # It is another item.
    "barrier-not-emitted": [do.AllocateArray(6), NODE, do.Write(0, 1, 1), MINOR],
    "frame-top-without-barrier": [do.AllocateArray(6), NODE, do.Write(0, 4, 1), MINOR],
    # A root refers to the node, too.
    "visitor-skips-permanent": [*ONLY_IN_PERMANENT, FULL],
    # There was only one full collection.
    "collector-stops-starting": [FULL, BEYOND_THRESHOLD],
    # The threshold is reached, not passed.
    "process-size-defers": [do.AllocateArray(78)],
    # No cycle has ended before.
    "expected-collection-missed": [BEYOND_THRESHOLD],
    # It is in the nursery.
    "off-bytes-charged": [NODE, EVERY_8],
    # The profile is read after the sample.
    "flush-advances-sampler": [{"sampler_seed": 8}, do.Malloc(641), PROFILE],
    # The first thread has this sampler.
    "one-counter-for-all": [{"sampler_seed": 1}, do.Malloc(3073)],
    # No sample is due yet, by either seed.
    "address-in-seed": [{"sampler_seed": 1}, SMALLEST],
    # The thread has one of the first slots.
    "thread-slots-not-zeroed": [{"threads": 3}, do.Malloc(0, thread=1)],
    # The allocator counts it alone.
    "counted-in-two-domains": [{"sampler_seed": 5}, do.Malloc(897)],
    # It is sampled, and dead.
    "one-layer-corrected": [EACH_BYTE, SMALLEST, do.Free(0), PROFILE],
    # 20 % of it are rounded away.
    "reused-class-estimate": [EACH_BYTE, SMALLEST, PROFILE],
    # No block is resized.
    "forced-sample-leaves-weight": [{"sampler_seed": 1}, do.Malloc(1155), do.Malloc(294)],
    # It is a byte less than a KiB, and sampled.
    "refused-sample-vanishes": [do.Malloc(1023)],
    # The distance after the sample is a usual one.
    "absorbing-generator-state": [MIB_BLOCK, SMALLEST],
    # Neither refers to the other.
    "finalizers-in-wrong-order": [*TWO, *BOTH_FREED, FULL, RUN],
    # Both are called.
    "wrong-index-drops-finalizer": [*TWO, *BOTH_FREED, FULL, RUN],
    # Nothing can be resurrected any more.
    "resurrection-blocks-sweep": [
        *(*DEAD, RUN, NODE, do.RegisterFinalizer(0, 1), do.Free(0), FULL, RUN)
    ],
    # It is not kept.
    "finalized-bit-reset": [*DEAD, RUN, FULL, RUN],
    # It is young.
    "one-list-searched": [*DEAD[:2], do.UnregisterFinalizer(0), do.Free(0), FULL, RUN],
    # It runs before the next collection.
    "pending-not-rooted": [*DEAD, RUN, FULL],
    "entry-removed-before-run": [*DEAD, RUN, FULL, RUN],
    # A root refers to it, too.
    "decided-before-promotion": [
        *(NODE, MINOR, *DEAD[:1], do.RegisterFinalizer(1, 0), do.Write(0, 0, 1), MINOR, RUN)
    ],
    # It does not move.
    "finalizer-table-not-updated": [OUTSIDE, *DEAD[1:2], FULL],
    # The sampled byte is one of the first member.
    "group-named-first": [do.EnableSampling(24), do.AllocateGroup((NODE_MEMBER, Member("array")))],
    # Its only sample.
    "group-member-sampled-once": [do.EnableSampling(40), TWO_NODES],
    # A collection comes before the end, the array has no cards, or the thread that wrote collects.
    "ended-thread-loses-log": [TINY, *WRITTEN_YOUNG, MINOR, ENDED, MINOR],
    "ended-thread-loses-cards": [ARRAY, MINOR, NODE, do.Write(0, 0, 1, thread=1), ENDED, MINOR],
    "collection-sees-one-log": [TINY, *WRITTEN_YOUNG, do.CollectMinor(thread=1)],
    "group-one-word-short": [ONE_NODE],
    # All members fit.
    "group-reserved-in-parts": [{"nursery_bytes": 136}, NODE, NODE, TWO_NODES],
    "group-checked-by-first": [do.EnableSampling(64), TWO_NODES],
    # The buffer has room for both blocks.
    "array-reserved-at-once": [NODE, EMPTY],
    # Another object is one block.
    "array-before-its-items": [NODE],
    # There is room without a collection.
    "exhausted-by-garbage": [*OLD_STRINGS, do.AllocateString(300)],
    "limit-never-compared": [SMALL_HEAP, STRING, STRING, FULL],
    # The queue is empty when memory is exhausted.
    "exhaustion-drops-pending": [*DEAD, RUN, FULL_HEAP, RUN],
    "exhaustion-ends-in-sweep": [do.AllocateString(840)],
    "exhausted-allocation-counts": [EVERY_8, do.AllocateString(840)],
    # It has no finalizer.
    "destructor-of-kept-object": [DESTRUCTIBLE, do.Free(0), FULL, RUN],
    # It dies young.
    "destructor-lost-in-promotion": [DESTRUCTIBLE, do.Free(0), FULL, RUN],
    # The finalizer has not run.
    "weakref-shows-finalized": [*DEAD[:2], WEAK, do.Free(0), FULL, do.ReadWeakref(0)],
    # The object is alive.
    "new-weakref-not-cleared": [*DEAD, KEEP, do.Resurrect(0), WEAK, RUN, FULL, do.ReadWeakref(1)],
    # A root is the weak reference.
    "resurrected-weakrefs-unprocessed": [
        *(*KEPT_WEAKREF[:4], do.Free(0), FULL, KEEP, do.ReadWeakref(0))
    ],
    # The object has no finalizer.
    "weak-to-freed-object": [NODE, WEAK, do.Free(0), FULL, do.ReadWeakref(0)],
    # The key is young, too.
    "ephemeron-value-without-barrier": [
        *(NODE, NODE, do.AllocateEphemeron(0, 1), MINOR, do.ReadEphemeron(2))
    ],
    # It has not moved.
    "ephemeron-stale-after-move": [NODE, do.AllocateEphemeron(0, 0), do.ReadEphemeron(1)],
    # No key is only a value.
    "ephemeron-chain-not-followed": [*[NODE] * 4, *CHAIN, FULL],
}


def parts_of(scenario: Scenario) -> tuple[dict[str, int], list[Action]]:
    first, *others = scenario
    return (first, others) if isinstance(first, dict) else ({}, scenario)


def failure_of(target: str, scenario: Scenario) -> Failure | None:
    configuration, actions = parts_of(scenario)
    return run_actions(make_target(target), configuration, actions, RERUN_ORACLES.values())


def failures_of(scenarios: Mapping[str, Scenario], *, planted: bool = True) -> dict[str, Failure]:
    """The scenarios that fail, with the bug planted or on its host without it."""
    failures = {
        name: failure_of(bug.target if planted else bug.host, scenarios[name])
        for name, bug in KNOWN_BUGS.items()
    }
    return {name: failure for name, failure in failures.items() if failure is not None}


def test_each_trigger_fails_at_its_last_action_with_an_oracle_of_the_bug() -> None:
    failures = failures_of(TRIGGERS)
    assert failures.keys() == KNOWN_BUGS.keys()
    for bug, failure in failures.items():
        assert failure.actions == tuple(parts_of(TRIGGERS[bug])[1]), bug
        assert failure.oracle in KNOWN_BUGS[bug].oracles, bug


def test_each_trigger_passes_on_the_reference() -> None:
    assert failures_of(TRIGGERS, planted=False) == {}


def test_all_actions_of_the_near_misses_are_legal() -> None:
    for bug, scenario in NEAR_MISSES.items():
        configuration, actions = parts_of(scenario)
        run = Run(make_target(KNOWN_BUGS[bug].host), configuration)
        for action in actions:
            assert why_illegal(action, run.contract, run.bench.shadow) is None, bug
            run.step(action)


def test_each_near_miss_passes() -> None:
    assert failures_of(NEAR_MISSES) == {}


def test_no_trigger_is_shorter_than_the_declared_length() -> None:
    for name, bug in KNOWN_BUGS.items():
        assert len(parts_of(TRIGGERS[name])[1]) >= bug.shortest, name
