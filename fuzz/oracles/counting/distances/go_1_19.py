"""The distances of Go 1.19 (stubs.go)."""

from fuzz.oracles.counting.distances.go import Go


class GoWide(Go):
    """Go's distance, with a generator of 64 bits.

    It is `s = s + 0xa0761d6478bd642f` modulo 2^64. Its number is the upper half of
    `s * (s ^ 0xe7037ed1a0b428db)`, xored with the lower half, of which the lower 32 bits count.
    """

    MODULUS = 2**64
    STEP, MASK = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB
