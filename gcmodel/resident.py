"""The memory that the operating system counts for this process.

It differs from run to run, so nothing that is compared or replayed may depend on it.
"""

import psutil


def resident_bytes() -> int:
    """Resident set size of this process in bytes."""
    return int(psutil.Process().memory_info().rss)
