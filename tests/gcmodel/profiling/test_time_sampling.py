"""Samples by time, beside those of allocations."""

import signal
from collections.abc import Callable

from gcmodel import Heap
from gcmodel.profiling.profile import Profile

Recorded = Callable[..., Profile]
PERIOD_US = 1000


def be_idle() -> None:
    """Until a moment of this function was sampled."""
    signal.pause()


def be_idle_and_allocate(heap: Heap) -> None:
    for number in range(20):
        be_idle()
        heap.allocate_node(number)


def test_the_stack_is_sampled_where_time_is_spent(recorded: Recorded) -> None:
    profile = recorded(be_idle_and_allocate, 64, time_period_us=PERIOD_US)
    functions = [profile.frames_of(each.stack)[0].function for each in profile.time_samples]
    assert functions.count("be_idle") >= 20


def test_a_sample_by_time_stands_below_the_program(recorded: Recorded) -> None:
    profile = recorded(be_idle_and_allocate, 64, time_period_us=PERIOD_US)
    outermost = {profile.frames_of(each.stack)[-1].function for each in profile.time_samples}
    assert outermost == {"a program"}


def test_allocations_are_sampled_beside_it(recorded: Recorded) -> None:
    profile = recorded(be_idle_and_allocate, 64, time_period_us=PERIOD_US)
    assert len(profile.samples) == 9


def test_the_timer_ends_with_the_program(recorded: Recorded) -> None:
    recorded(be_idle_and_allocate, 64, time_period_us=PERIOD_US)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_without_it_there_is_no_timer(recorded: Recorded) -> None:
    timers = []
    profile = recorded(lambda heap: timers.append(signal.getitimer(signal.ITIMER_REAL)), 64)
    assert timers == [(0.0, 0.0)]
    assert profile.time_samples == []
