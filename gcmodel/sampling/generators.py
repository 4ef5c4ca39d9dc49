"""The pseudo-random generators of the modelled samplers, exact to the bit.

Invariant: a seed always gives the same numbers, so that a trace, which names the seed, can be
replayed. `distances` turns the numbers into bytes.
"""

from gcmodel.memory.errors import ConfigurationError

MASK_32 = 2**32 - 1
MASK_48 = 2**48 - 1
MASK_64 = 2**64 - 1


class JemallocGenerator:
    """A linear congruential generator of 64 bits, which uses the top ones. (jemalloc, prng.h.)"""

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK_64

    def bits(self, count: int) -> int:
        """Draw a number of `count` bits, 1 to 64."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & MASK_64
        return self._state >> (64 - count)


class Rand48Generator:
    """The linear congruential generator of drand48, as in gperftools, TCMalloc and HotSpot.

    The first numbers resemble the seed, so gperftools and TCMalloc throw 20 away. HotSpot does not.
    (gperftools 2.10 and google/tcmalloc, sampler.cc; OpenJDK, threadHeapSampler.cpp.)
    """

    def __init__(self, seed: int, thrown_away: int = 20) -> None:
        self._state = seed & MASK_48
        for _ in range(thrown_away):
            self._step()

    def _step(self) -> None:
        self._state = (0x5DEECE66D * self._state + 0xB) & MASK_48

    def bits_26(self) -> int:
        """Draw a number of 26 bits."""
        self._step()
        return self._state >> 22


class SubtractiveGenerator:
    """Knuth's subtractive generator, as in the CLR and in .NET's System.Random with a seed.

    (Knuth, The Art of Computer Programming, volume 2, section 3.2.2; CLRRandom in the runtime.)
    """

    SIZE = 55
    LAG = 21
    MODULUS = 2**31 - 1
    SEED_MAX = 161803398
    """Knuth's own constant. The CLR also accepts larger seeds, and its integers overflow then."""

    def __init__(self, seed: int) -> None:
        """Raises ConfigurationError unless `seed` is from 0 to SEED_MAX."""
        if not 0 <= seed <= self.SEED_MAX:
            raise ConfigurationError(f"the seed is {seed}; it must be from 0 to {self.SEED_MAX}")
        # numbers[i] is number i + 1 of Knuth and the CLR.
        self._numbers = [0] * self.SIZE
        last = self._numbers[-1] = self.SEED_MAX - seed
        following = 1
        for step in range(1, self.SIZE):
            index = self.LAG * step % self.SIZE - 1
            self._numbers[index] = following
            last, following = following, (last - following) % self.MODULUS
        for _ in range(4):
            for index in range(self.SIZE):
                self._subtract(index, (index + 31) % self.SIZE)
        self._index = 0

    def _subtract(self, index: int, other: int) -> int:
        difference = (self._numbers[index] - self._numbers[other]) % self.MODULUS
        self._numbers[index] = difference
        return difference

    def fraction(self) -> float:
        """Draw a number from 0 up to, and not including, 1."""
        index = self._index
        self._index = (index + 1) % self.SIZE
        return self._subtract(index, (index + self.LAG) % self.SIZE) * (1.0 / self.MODULUS)


class Xoshiro128:
    """Blackman and Vigna's xoshiro128++, with a state of 128 bits, its first word the lowest.

    (Scrambled Linear Pseudorandom Number Generators; .NET 10, xoshiro128pp.c.)
    """

    def __init__(self, state: int) -> None:
        self._state = [state >> bits & MASK_32 for bits in (0, 32, 64, 96)]

    def bits_32(self) -> int:
        state = self._state
        number = _rotated_left((state[0] + state[3]) & MASK_32, 7) + state[0]
        shifted = state[1] << 9 & MASK_32
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = _rotated_left(state[3], 11)
        return number & MASK_32


def _rotated_left(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & MASK_32


class SplitMix64:
    """Steele, Lea and Flood's generator: a counter, well mixed, for any seed.

    (Fast Splittable Pseudorandom Number Generators, OOPSLA 2014, figure 17.)
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK_64

    def bits_64(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & MASK_64
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK_64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK_64
        return mixed ^ mixed >> 31

    def fraction(self) -> float:
        """Draw a number from 0 up to, and not including, 1, in steps of 2**-53."""
        return (self.bits_64() >> 11) * 2.0**-53
