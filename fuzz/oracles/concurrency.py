"""The concurrency oracle: what holds for threads that run at the same time, in any order.

Each thread reads what it has written. Its samples are of objects that it allocates, and it takes
none while sampling is off. Their number is what chance allows, with the tolerances of the contract.

A thread's nodes have the numbers from `first` on, `objects` for each thread. A node's string has
37 times its number modulo 128 characters. The thread reports the sum, over its nodes, of the number
times one more than the length, so that neither can be another node's. (docs/protocol.md)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.estimate import IMPROBABLE, improbability
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, RunAtOnce
from fuzz.protocol.contract import AtOnce, Contract
from fuzz.protocol.observation import Observation

LENGTH_STEP, LENGTHS = 37, 128
NUMBERS = 3
"""How many numbers the share of a thread has."""


class ConcurrencyOracle(Oracle):
    """Judges each thread's share."""

    name = "concurrency"
    judges = ("shares",)
    relies_on = (SamplingOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._rule = contract.sampling
        self._layout = contract.layout
        self._threads = contract.threads
        self._promise = contract.at_once

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return "run_at_once" in contract.actions

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        if not isinstance(action, RunAtOnce):
            return
        shares = observation.shares
        if shares is None or [*map(len, shares)] != [NUMBERS] * self._threads:
            expected = f"{NUMBERS} numbers for each of {self._threads} threads"
            raise self.mismatch("shares", expected, shares, "of threads that run at once")
        for thread, (read, samples, sampled_bytes) in enumerate(shares):
            first = action.first + thread * action.objects
            why = f"thread {thread} makes {action.objects} nodes, numbered from {first} on"
            lengths = _lengths(first, action.objects)
            expected_read = sum((1 + length) * sum(lengths[length]) for length in lengths)
            if read != expected_read:
                raise self.mismatch("read", expected_read, read, why)
            sizes = self._sizes(lengths)
            if not min(sizes) * samples <= sampled_bytes <= max(sizes) * samples:
                expected = f"{samples} times {min(sizes)} to {max(sizes)} bytes"
                raise self.mismatch("sampled_bytes", expected, sampled_bytes, why)
            if self._promise and sampling.period_bytes is not None:
                low, high = self._expected(
                    self._promise, sizes, observation.minors, sampling.period_bytes
                )
                wanted = min(max(samples, low), high)
                if samples != wanted and not self._is_chance(samples, wanted, sizes, sampling):
                    why += f"; period {sampling.period_bytes}, {observation.minors} collections"
                    raise self.mismatch("samples", round(wanted), samples, why)
        total = sum(samples for _, samples, _ in shares)
        if observation.samples != total:
            raise self.mismatch("samples", total, observation.samples, "those of all threads")

    def _sizes(self, lengths: Mapping[int, range]) -> Counter[int]:
        """The number of objects that a thread allocates, for each size."""
        sizes = Counter[int]()
        for length, numbers in lengths.items():
            sizes[self._layout.cost("node", 0, nonmovable=False)[0]] += len(numbers)
            sizes[self._layout.cost("string", length, nonmovable=False)[0]] += len(numbers)
        return sizes

    def _expected(
        self, promise: AtOnce, sizes: Counter[int], minors: int, period_bytes: int
    ) -> tuple[float, float]:
        """The least and the most expected samples of a thread."""
        if not period_bytes:  # Each allocation is sampled.
            objects = sizes.total()
            return max(objects - promise.unseen_bytes / min(sizes), 0), objects
        least = self._mean(sizes, period_bytes + self._layout.word_bytes)
        most = self._mean(sizes, period_bytes) * (1 + promise.phantom_percent / 100)
        phantom_bytes = promise.phantom_bytes * (1 + minors)
        return (
            max(least - promise.unseen_bytes / period_bytes, 0),
            most + phantom_bytes / period_bytes,
        )

    def _mean(self, sizes: Counter[int], period_bytes: int) -> float:
        """The expected samples of objects if each byte is sampled independently."""
        if self._rule.samples_per_allocation == "all":
            return sum(size * times for size, times in sizes.items()) / period_bytes
        return sum((1 - (1 - 1 / period_bytes) ** size) * times for size, times in sizes.items())

    def _is_chance(
        self, samples: int, expected: float, sizes: Counter[int], sampling: SamplingState
    ) -> bool:
        """Whether chance allows a number of samples, as the estimate oracle judges it."""
        objects = sizes.total()
        by_chance = improbability(samples, expected)
        if self._rule.samples_per_allocation == "one" and expected < objects:
            by_chance += improbability(objects - samples, objects - expected)
        return sampling.period_bytes != 0 and by_chance <= IMPROBABLE


def _lengths(first: int, objects: int) -> dict[int, range]:
    """The lengths of a thread's strings, each with the numbers of its nodes."""
    numbers = range(first, first + objects)
    return {
        number * LENGTH_STEP % LENGTHS: numbers[at::LENGTHS]
        for at, number in enumerate(numbers[:LENGTHS])
    }
