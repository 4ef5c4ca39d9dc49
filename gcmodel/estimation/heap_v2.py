"""Heap dumps in the text format that jeprof reads.

    heap_v2/524288
      t*: live objects: live bytes [allocated objects: allocated bytes]
      t0: the same of thread 0
    @ 0x1000 0x2001
      t*: …

    MAPPED_LIBRARIES:
    the text of /proc/self/maps

Invariant: jeprof computes each stack's sums from the numbers of that stack. The head is computed
from the sums of all stacks, since the two steps do not commute. jeprof ignores the head. A stack
without objects is left out. (jemalloc, PROFILING_INTERNALS.md; `prof_data.c`.)

There is one thread. The sums may come from any estimator, not only from jemalloc's.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import attrs

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.jemalloc import dumped
from gcmodel.estimation.samples import Site
from gcmodel.estimation.unbiased import Totals

LIBRARIES = "\nMAPPED_LIBRARIES:\n"
# The size of a made-up address. With this many bytes two names rarely have the same one.
DIGEST_BYTES = 7
# A caller's address is the one it returns to, and jeprof looks up the byte before it.
MADE_UP_ADDRESS_BYTES = 16


@attrs.frozen(kw_only=True)
class DumpedStack:
    """The sums of one stack. `allocated` is zero unless allocations are accumulated."""

    live: Totals
    allocated: Totals = attrs.Factory(Totals)


def write(stacks: Mapping[Site, DumpedStack], period_bytes: int, mapped_libraries: str) -> str:
    """The dump of stacks of addresses; jeprof finds names in the program and its libraries.

    `mapped_libraries` is the text of the process's `/proc/self/maps`.
    """
    check_at_least("period_bytes", period_bytes, 1)
    live = sum((stack.live for stack in stacks.values()), Totals())
    allocated = sum((stack.allocated for stack in stacks.values()), Totals())
    head = DumpedStack(live=live, allocated=allocated)
    lines = [f"heap_v2/{period_bytes}", *_lines(head, period_bytes)]
    for site, stack in stacks.items():
        if stack.live.objects or stack.allocated.objects:
            lines += [f"@ {_addresses(site)}", *_lines(stack, period_bytes)]
    return "\n".join(lines) + "\n" + LIBRARIES + mapped_libraries


def write_with_names(stacks: Mapping[Site, DumpedStack], period_bytes: int) -> str:
    """The dump of stacks of names, which contains them: `jeprof FILE` needs no program.

    Each name has a made-up address, the same in every dump, since `jeprof --base` subtracts by
    address. jeprof cannot read a name with a line end or `--`.
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
    """An address for each name, computed from the name alone.

    If two would be the same, the name later in the alphabet has the next free address.
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
    is_one_line = isinstance(frame, str) and len(frame.splitlines()) == 1
    if not isinstance(frame, str) or not is_one_line or not frame.strip() or "--" in frame:
        raise ValueError(f"{frame!r} is not a name that jeprof can read")
    return frame
