"""Facts of the sampler, of the collector and of the nursery."""

from __future__ import annotations

from fuzz.drawing.cast import STRING_LENGTHS, Cast
from fuzz.drawing.fact import fact
from fuzz.drawing.situation import Scenario
from fuzz.mutator.legality import callback_length_max
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import PRESSURES
from fuzz.protocol.observation import MAJOR_STATES

STEPS_MAX = 5
"""At most this many steps are taken to reach a state of the major collection."""
MARKING, SWEEPING = MAJOR_STATES.index("marking"), MAJOR_STATES.index("sweeping")


# The sampler.


@fact("sampler", "enable_sampling")
def samples_often(cast: Cast) -> Scenario:
    """Sampling is on, with a period of some words."""
    yield from cast.act(cast.mutator.sample_often)


@fact("sampler", "enable_sampling")
def samples(cast: Cast) -> Scenario:
    """The sample point may lie beyond the nursery."""
    yield from cast.act(cast.mutator.sample)


@fact("sampler", "pause_sampling")
def is_paused(cast: Cast) -> Scenario:
    """Sampling is paused; it may have to be enabled first."""
    if cast.shadow.paused_bytes is None:
        if cast.shadow.sampling_bytes is None:
            yield from samples_often(cast) if cast.choices.below(2) else samples(cast)
        yield from cast.act(actions.PauseSampling)


@fact("sampler", "disable_sampling")
def is_off(cast: Cast) -> Scenario:
    """Sampling was on or paused, and is off."""
    if (cast.shadow.sampling_bytes, cast.shadow.paused_bytes) != (None, None):
        may_report = "report" in cast.contract.sampling.disabling
        yield from cast.act(actions.DisableSampling, may_report and cast.choices.one_in(2))


@fact("samples", "enable_sampling")
def sample_is_pending(cast: Cast) -> Scenario:
    """The main object is a new one, and sampled unless sampling is paused or the point is far."""
    if cast.shadow.paused_bytes is None and cast.shadow.sampling_bytes is None:
        yield from samples_often(cast)
    # What can be pinned, too, is worth more.
    yield from cast.new(cast.string if cast.choices.below(2) else cast.anything)


# The nursery.


@fact("due", "add_memory_pressure", is_brief=True)
def collection_is_due(cast: Cast) -> Scenario:
    """Memory pressure makes the next allocation collect."""
    extra_bytes = cast.contract.nursery_bytes << (2 + cast.choices.below(2))
    yield from cast.act(actions.AddMemoryPressure, PRESSURES.nearest(extra_bytes))


@fact("callback", "set_callback")
def callback_allocates(cast: Cast) -> Scenario:
    """A callback allocates a string, the shortest or the longest, after each collection."""
    longest = max(callback_length_max(cast.contract), 0)
    yield from cast.act(actions.SetCallback, cast.choices.pick((0, longest)))


@fact("room", "allocate_string")
def is_crowded(cast: Cast) -> Scenario:
    """The nursery is full, or a sample is due, or nearly so."""
    is_small = cast.choices.below(2)
    length = cast.choices.pick(STRING_LENGTHS) if is_small else cast.mutator.edge_length()
    crowd: list[ShadowObject] = []
    yield from cast.add(crowd, actions.AllocateString, length)
    for member in crowd:
        yield from cast.act(cast.mutator.free, member)


# The threads.


@fact("thread", "end_thread")
def thread_has_ended(cast: Cast) -> Scenario:
    """The thread whose turn it is has ended, unless it is the first one."""
    yield from cast.act(lambda: actions.EndThread(thread=cast.mutator.situation.thread))


# The collector.


@fact("state", "collect_step", collects=True)
def is_marking(cast: Cast) -> Scenario:
    """Marking has started. The first step into it has marked nothing."""
    yield from _into(cast, MARKING)
    for _ in range(cast.choices.between(0, 3)):
        yield from cast.act(actions.CollectStep)


@fact("state", "collect_step", collects=True)
def is_sweeping(cast: Cast) -> Scenario:
    """Sweeping is soon over, so no step is taken within it."""
    yield from _into(cast, SWEEPING)


def _into(cast: Cast, state: int) -> Scenario:
    for _ in range(STEPS_MAX):
        yield from cast.act(actions.CollectStep)
        if cast.mutator.situation.state in (state, None):
            break


def collected(cast: Cast) -> Scenario:
    """A minor collection, or steps into some state of a major one.

    A collector that takes no steps collects when the nursery is full.
    """
    match cast.choices.below(4):
        case 0:
            yield from cast.act(actions.CollectMinor)
        case _ if not cast.mutator.supports("collect_step"):
            yield from is_crowded(cast)
        case 1:
            for _ in range(cast.choices.between(1, 2)):
                yield from cast.act(actions.CollectStep)
        case 2:
            yield from is_marking(cast)
        case 3:
            yield from is_sweeping(cast)
