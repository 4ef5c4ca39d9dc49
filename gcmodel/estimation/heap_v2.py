"""Heap dumps in the text format that jeprof reads.

    heap_v2/524288
      t*: live objects: live bytes [allocated objects: allocated bytes]
      t0: the same of thread 0
    @ 0x1000 0x2001
      t*: …

    MAPPED_LIBRARIES:
    the text of /proc/self/maps

Invariant: the numbers of each stack are those from which jeprof computes the stack's sums; the
head's are computed from the sums of all, since the two steps do not commute. jeprof ignores the
head. A stack with nothing to say is left out. (jemalloc, PROFILING_INTERNALS.md; `prof_data.c`.)

All is said of one thread. The sums may be any estimator's, not only jemalloc's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import attrs

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.jemalloc import dumped
from gcmodel.estimation.samples import Site
from gcmodel.estimation.unbiased import Totals

LIBRARIES = "\nMAPPED_LIBRARIES:\n"
# Of a made-up address; so many that two names hardly ever have the same.
DIGEST_BYTES = 7
# A caller's address is the one it returns to; jeprof looks up the byte before it.
MADE_UP_ADDRESS_BYTES = 16


@attrs.frozen(kw_only=True)
class DumpedStack:
    """The sums of one stack. What was `allocated` has zeros unless it is accumulated."""

    live: Totals
    allocated: Totals = attrs.Factory(Totals)


def write(stacks: Mapping[Site, DumpedStack], period_bytes: int, mapped_libraries: str) -> str:
    """The dump of stacks of addresses; jeprof finds names in the program and its libraries.

    `mapped_libraries` is the text of the process's `/proc/self/maps`. Raises ValueError for a
    period below one byte and for a stack without frames, or with names.
    """
    check_at_least("period_bytes", period_bytes, 1)
    live = sum((stack.live for stack in stacks.values()), Totals())
    allocated = sum((stack.allocated for stack in stacks.values()), Totals())
    lines = [
        f"heap_v2/{period_bytes}",
        *_lines(DumpedStack(live=live, allocated=allocated), period_bytes),
    ]
    for site, stack in stacks.items():
        if stack.live.objects or stack.allocated.objects:
            lines += [f"@ {_addresses(site)}", *_lines(stack, period_bytes)]
    return "\n".join(lines) + "\n" + LIBRARIES + mapped_libraries


def write_with_names(stacks: Mapping[Site, DumpedStack], period_bytes: int) -> str:
    """The dump of stacks of names, which carries them: `jeprof FILE` needs no program.

    Each name gets a made-up address, the same in every dump: `jeprof --base` subtracts by address.
    Raises ValueError for a period below one byte, a stack without frames, and a name that jeprof
    cannot read: not a text, or with a line end or `--`.
    """
    addresses = made_up_addresses(_readable(frame) for site in stacks for frame in site)
    symbols = [
        f"0x{address - behind:x} {name}" for name, address in addresses.items() for behind in (0, 1)
    ]
    numbered: dict[Site, DumpedStack] = {
        tuple(addresses[str(frame)] for frame in site): stacks[site] for site in stacks
    }
    head = ["--- symbol", "binary=names", *symbols, "---", "--- heap", ""]
    return "\n".join(head) + write(numbered, period_bytes, "")


def made_up_addresses(names: Iterable[str]) -> dict[str, int]:
    """An address for each name, which follows from the name alone, unless two had the same.

    Then the one that comes later in the alphabet gets the next that is free.
    """
    names_at: dict[int, str] = {}
    for name in sorted(set(names)):
        digest = blake2b(name.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()
        address = MADE_UP_ADDRESS_BYTES * (int.from_bytes(digest) + 1)
        while address in names_at:
            address += MADE_UP_ADDRESS_BYTES
        names_at[address] = name
    return {name: address for address, name in names_at.items()}


def _lines(stack: DumpedStack, period_bytes: int) -> list[str]:
    live, allocated = dumped(stack.live, period_bytes), dumped(stack.allocated, period_bytes)
    figures = f"{live.objects}: {live.bytes} [{allocated.objects}: {allocated.bytes}]"
    return [f"  t*: {figures}", f"  t0: {figures}"]


def _addresses(site: Site) -> str:
    if not site or not all(isinstance(frame, int) for frame in site):
        raise ValueError(f"the site {site!r} is not a stack of addresses")
    return " ".join(f"0x{frame:x}" for frame in site)


def _readable(frame: str | int) -> str:
    if (
        not isinstance(frame, str)
        or not frame.strip()
        or "--" in frame
        or len(frame.splitlines()) > 1
    ):
        raise ValueError(f"{frame!r} is no name that jeprof can read")
    return frame
