"""What all generators of distances have in common, and the steps that some of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Generator(ABC):
    """A system's random number generator, and the distance that the system makes of a number."""

    @abstractmethod
    def __init__(self, seed: int) -> None:
        """Start from the seed that the contract or an observation states."""

    @abstractmethod
    def number(self) -> int:
        """The generator's next number."""

    @abstractmethod
    def draw(self, period_bytes: int) -> int:
        """The next distance, in bytes."""

    def restart(self) -> None:
        """Sampling starts."""
        return

    def skip(self, count: int) -> None:
        """The system uses the next numbers for something else."""
        for _ in range(count):
            self.number()

    def reseed(self, seed: int) -> None:
        """Start again from another seed."""
        self.__init__(seed)  # type: ignore[misc]


Words = tuple[int, int, int, int]
"""The state of a xoshiro128 generator: four words of 32 bits."""


def xoshiro128_step(words: Words) -> Words:
    """The next state of a xoshiro128 generator."""
    a, b, c, d = words
    c ^= a
    d ^= b
    return a ^ d, b ^ c, c ^ (b << 9) % 2**32, rotated(d, 11)


def rotated(word: int, bits: int) -> int:
    """A word of 32 bits, rotated to the left."""
    return (word << bits | word >> 32 - bits) % 2**32


SPLITMIX64_STEP = 0x9E3779B97F4A7C15


def splitmix64(state: int) -> int:
    """The number that a splitmix64 generator returns in this state."""
    state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    state = ((state ^ state >> 27) * 0x94D049BB133111EB) % 2**64
    return state ^ state >> 31
