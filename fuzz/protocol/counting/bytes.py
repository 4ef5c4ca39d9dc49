"""Plain counting: each thread counts its bytes down to its next sample (PyPy, TCMalloc).

The keys of the rule that all ways share say the rest: `crosses`, `surplus`,
`samples_per_allocation`, `enabling`, `paused`, `weights`.
"""

import attrs

from fuzz.protocol.counting.way import Way


@attrs.frozen
class Bytes(Way):
    """One countdown per thread, of the bytes that the thread allocates."""

    by = "bytes"
