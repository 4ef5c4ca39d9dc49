"""Samples by time, beside those of allocations."""

import signal
import time
from collections.abc import Callable

from gcmodel import Heap
from gcmodel.profiling.profile import Profile

Recorded = Callable[..., Profile]
PERIOD_US = 1000


def be_busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def be_busy_and_allocate(heap: Heap) -> None:
    for number in range(20):
        be_busy(0.01)
        heap.allocate_node(number)


def test_the_stack_is_sampled_where_time_is_spent(recorded: Recorded) -> None:
    profile = recorded(be_busy_and_allocate, 64, time_period_us=PERIOD_US)
    busy = [
        each
        for each in profile.time_samples
        if profile.frames_of(each.stack)[0].function == "be_busy"
    ]
    # In 0.2 s the timer fires 200 times; a machine that is busy elsewhere is late.
    assert 20 <= len(busy) <= 210


def test_a_sample_by_time_stands_below_the_program(recorded: Recorded) -> None:
    profile = recorded(be_busy_and_allocate, 64, time_period_us=PERIOD_US)
    outermost = {profile.frames_of(each.stack)[-1].function for each in profile.time_samples}
    assert outermost == {"a program"}


def test_allocations_are_sampled_beside_it(recorded: Recorded) -> None:
    profile = recorded(be_busy_and_allocate, 64, time_period_us=PERIOD_US)
    assert len(profile.samples) == 9


def test_the_timer_ends_with_the_program(recorded: Recorded) -> None:
    recorded(be_busy_and_allocate, 64, time_period_us=PERIOD_US)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_without_it_nothing_is_sampled_by_time(recorded: Recorded) -> None:
    assert recorded(be_busy_and_allocate, 64).time_samples == []
