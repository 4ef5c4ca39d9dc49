"""The parameters of a heap.

Invariant: every `Configuration` object can run. Pages and arenas are as small as in PyPy's own
direct tests of incminimark, so that a few dozen objects already exercise them.
"""

import attrs

from gcmodel.memory.errors import ConfigurationError
from gcmodel.memory.layout import WEAKREF_BYTES, WORD_BYTES

MAJOR_FACTOR = 2.5
"""A major collection starts when memory has grown by this factor since the last one."""
GROWTH_FACTOR_MAX = 2.5
"""The threshold of the next major collection grows by at most this factor."""

PAGE_BYTES = 128
ARENA_BYTES = 512
SMALL_OBJECT_BYTES = 40
"""The largest rounded size of an old object that lives in an arena."""

NURSERY_BYTES_MIN = 64
NURSERY_BYTES_MAX = 2**20
# A weak reference always lies in the nursery, as in incminimark.
LARGE_OBJECT_BYTES_MIN = WEAKREF_BYTES + 1
CARD_ITEMS_ALLOWED = (0, 4, 32)
PERIOD_BYTES_MIN = WORD_BYTES
PERIOD_BYTES_MAX = 2**40
THREADS_MAX = 64
SEED_MAX = 2**64 - 1
PREBUILT_MAX = 8
PREBUILT_ARRAY_LENGTH = 4


def _check_words(name: str, value: int, minimum: int, maximum: int, most: str = "{}") -> None:
    if not minimum <= value <= maximum or value % WORD_BYTES:
        raise ConfigurationError(
            f"{name} is {value}; it must be a multiple of {WORD_BYTES} "
            f"from {minimum} to {most.format(maximum)}"
        )


@attrs.frozen(kw_only=True)
class TlabSizes:
    """The sizes of HotSpot's thread-local allocation buffers, in whole words."""

    desired_bytes: int = 64
    """A new TLAB's size beside the object that needs it, if eden has that much left."""
    least_bytes: int = 32
    """A TLAB's smallest size (MinTLABSize)."""
    reserve_bytes: int = 16
    """The bytes behind a TLAB's end that stay free."""
    waste_bytes: int = 8
    """A TLAB with more than this left is kept (TLABRefillWasteFraction)."""
    waste_increment_bytes: int = 8
    """Each object outside raises that limit by this much (TLABWasteIncrement)."""

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            _check_words(name, value, 0, NURSERY_BYTES_MAX)


@attrs.frozen(kw_only=True)
class Configuration:
    """One heap's parameters. Raises ConfigurationError for one outside its range."""

    nursery_bytes: int = 256
    """Size of the nursery: whole words, 64 to 2**20."""
    large_object_bytes: int = 64
    """An object of this unrounded size or more lies outside: 17 up to `nursery_bytes`."""
    card_items: int = 4
    """Items of a large array that share one card: 4 or 32, or 0 for no card marking."""
    paged_arenas: bool = True
    """Keep small old objects in size-class pages; if not, in a plain list without arenas."""
    single_step_marking: bool = False
    """A marking step visits one object only."""
    moving_nursery: bool = False
    """The nursery changes its place with each collection, unless an object is pinned in it."""
    pin_while_sampling: bool = False
    """Objects may be pinned while sampling is on. In PyPy each excludes the other."""
    random_periods: bool = False
    """Draw distances between samples from a geometric distribution with the period as its mean.
    If not, they all are the period."""
    sampler_seeds: tuple[int, ...] = (0,)
    """The seed of each thread's generator of distances: 1 to 64 numbers from 0 to 2**64 - 1.
    Only parts with a buffer for each thread use more than one."""
    context_bytes: int = 64
    """The size of an allocation context: whole words, 8 up to `nursery_bytes`."""
    tlab: TlabSizes = TlabSizes()
    first_bytes: int = 1
    """Each thread's bytes until its first sample where threads have TLABs: 1 or more."""
    heap_bytes_max: int = 0
    """What the objects outside the nursery may take after a major collection, 0 or more. Only a
    collector with a limit uses it."""
    prebuilt_nodes: int = 1
    """Immortal nodes that exist from the start, 0 to 8."""
    prebuilt_arrays: int = 1
    """Immortal arrays of four references that exist from the start, 0 to 8."""

    def __attrs_post_init__(self) -> None:
        nursery, large = self.nursery_bytes, self.large_object_bytes
        _check_words("nursery_bytes", nursery, NURSERY_BYTES_MIN, NURSERY_BYTES_MAX)
        if not LARGE_OBJECT_BYTES_MIN <= large <= nursery:
            raise ConfigurationError(
                f"large_object_bytes is {large}; it must be from {LARGE_OBJECT_BYTES_MIN} "
                f"to nursery_bytes ({nursery})"
            )
        if self.card_items not in CARD_ITEMS_ALLOWED:
            raise ConfigurationError(
                f"card_items is {self.card_items}; it must be one of {CARD_ITEMS_ALLOWED}"
            )
        _check_words("context_bytes", self.context_bytes, WORD_BYTES, nursery, "nursery_bytes ({})")
        if not 1 <= len(self.sampler_seeds) <= THREADS_MAX:
            raise ConfigurationError(f"sampler_seeds must be 1 to {THREADS_MAX} numbers")
        if not all(0 <= seed <= SEED_MAX for seed in self.sampler_seeds):
            raise ConfigurationError(f"each of sampler_seeds must be from 0 to {SEED_MAX}")
        if self.heap_bytes_max < 0:
            raise ConfigurationError(
                f"heap_bytes_max is {self.heap_bytes_max}; it must be 0 or more"
            )
        for name in ("prebuilt_nodes", "prebuilt_arrays"):
            if not 0 <= getattr(self, name) <= PREBUILT_MAX:
                raise ConfigurationError(f"{name} must be from 0 to {PREBUILT_MAX}")


def check_period(period_bytes: int) -> None:
    """Raise ConfigurationError unless `period_bytes` is a whole number of words in range.

    PyPy's fork dies on a bare assertion for 12, -8 or 2**32. The mutator passes the period, so the
    reference raises a named error instead.
    """
    _check_words("period_bytes", period_bytes, PERIOD_BYTES_MIN, PERIOD_BYTES_MAX)
