"""Heap dumps: as text, read back, and as the stock jeprof reads them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from heap_v2_reading import Numbers, read
from waiting import PATIENCE_SECONDS, completed

from gcmodel.estimation import heap_v2, jemalloc
from gcmodel.estimation.heap_v2 import DumpedStack, made_up_addresses, write, write_with_names
from gcmodel.estimation.jemalloc import Dumped, shown_by_jeprof
from gcmodel.estimation.samples import Sample, Site
from gcmodel.estimation.unbiased import Totals, by_chance, per_byte, totals_by

MakeSample = Callable[..., Sample]
PERIOD = 4096
JEPROF = shutil.which("jeprof")
needs_jeprof = pytest.mark.skipif(JEPROF is None, reason="install libjemalloc-dev for jeprof")

# The text.


def test_a_dump_is_written_as_jemalloc_does(make_sample: MakeSample) -> None:
    each = jemalloc.estimate(make_sample(16, period_bytes=PERIOD))
    live, allocated = (Totals(count * each.objects, count * each.bytes) for count in (80, 134))
    stacks: dict[Site, DumpedStack] = {
        (0x1000, 0x1001): DumpedStack(live=live, allocated=allocated)
    }
    assert write(stacks, PERIOD, "0-1 r-xp\n") == (
        "heap_v2/4096\n"
        "  t*: 80: 1280 [134: 2144]\n"
        "  t0: 80: 1280 [134: 2144]\n"
        "@ 0x1000 0x1001\n"
        "  t*: 80: 1280 [134: 2144]\n"
        "  t0: 80: 1280 [134: 2144]\n"
        "\n"
        "MAPPED_LIBRARIES:\n"
        "0-1 r-xp\n"
    )


def test_the_head_is_computed_from_the_sums_of_all_stacks(make_sample: MakeSample) -> None:
    stacks: dict[Site, DumpedStack] = {
        site: DumpedStack(live=jemalloc.estimate(make_sample(size, period_bytes=2**19)))
        for site, size in (((0x1,), 16), ((0x2,), 33554432))
    }
    dump = read(write(stacks, 2**19, ""))
    assert dump.head.live == Dumped(65, 67530)
    assert [each.live for each in dump.stacks.values()] == [Dumped(1, 16), Dumped(1, 33554432)]


def test_only_a_stack_without_any_objects_is_left_out() -> None:
    stacks: dict[Site, DumpedStack] = {
        (0x1,): DumpedStack(live=Totals()),
        (0x2,): DumpedStack(live=Totals(), allocated=Totals(1, 40960)),
    }
    written = read(write(stacks, PERIOD, ""))
    assert written.stacks == {(0x2,): Numbers(Dumped(0, 0), Dumped(1, 40958))}


@pytest.mark.parametrize("site", [(), ("main",), (0x1, "main")])
def test_a_stack_that_is_none_of_addresses_is_refused(site: Site) -> None:
    with pytest.raises(ValueError, match="is not a stack of addresses"):
        write({site: DumpedStack(live=Totals(1, 8))}, PERIOD, "")


@pytest.mark.parametrize("frame", [0x1, "", " ", "two\nlines", "a--b"])
def test_a_name_that_jeprof_cannot_read_is_refused(frame: str | int) -> None:
    with pytest.raises(ValueError, match="not a name that jeprof can read"):
        write_with_names({("main", frame): DumpedStack(live=Totals(1, 8))}, PERIOD)


def test_a_period_below_one_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="period_bytes is 0"):
        write({}, 0, "")


def test_a_name_has_the_same_address_among_any_others() -> None:
    names = [f"function {number}" for number in range(1000)]
    alone = [made_up_addresses([name])[name] for name in names]
    assert made_up_addresses(reversed(names)) == dict(zip(names, alone, strict=True))


def test_two_names_never_share_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_v2, "DIGEST_BYTES", 1)
    names = [f"function {number}" for number in range(1000)]
    addresses = made_up_addresses(names)
    assert len(set(addresses.values())) == len(names)
    assert made_up_addresses(reversed(names)) == addresses


# jeprof.


def total_in_jeprof(figure: str, dump: Path, *program: str) -> int:
    """The total in bytes or objects that `jeprof --text` prints; the program if it needs one."""
    ran = completed([str(JEPROF), "--text", "--show_bytes", f"--{figure}", *program, str(dump)])
    found = re.search(r"^Total: (\d+) ", ran.stdout, re.MULTILINE)
    assert found, ran.stdout
    return int(found[1])


@pytest.fixture
def samples(make_sample: MakeSample) -> list[Sample]:
    """Three stacks, two of one size class each and one of three."""
    sizes = [((0x10, 0x20), [8] * 900), ((0x30, 0x20), [4096] * 60)]
    sizes += [((0x40, 0x20), [8] * 100 + [4096] * 7 + [20480] * 2)]
    return [
        make_sample(size, site=site, period_bytes=PERIOD) for site, many in sizes for size in many
    ]


def stacks_of(live: Sequence[Sample], freed: Sequence[Sample]) -> dict[Site, DumpedStack]:
    of_live = totals_by(live, lambda sample: sample.site, jemalloc.estimate)
    of_all = totals_by([*live, *freed], lambda sample: sample.site, jemalloc.estimate)
    return {
        site: DumpedStack(live=of_live.get(site, Totals()), allocated=of_all[site])
        for site in of_all
    }


@pytest.mark.slow
@needs_jeprof
@pytest.mark.parametrize("figure", ["inuse_objects", "inuse_space", "alloc_objects", "alloc_space"])
def test_jeprof_adds_the_dumped_numbers(samples: list[Sample], tmp_path: Path, figure: str) -> None:
    """Whole numbers are one part in twice the number of objects off; here 121 or 60."""
    dump = tmp_path / "dump.heap"
    stacks = stacks_of(samples[::2], samples[1::2])
    dump.write_text(write(stacks, PERIOD, ""))
    which = "live" if figure.startswith("inuse") else "allocated"
    unit = "objects" if "objects" in figure else "bytes"
    rows = [getattr(row, which) for row in read(dump.read_text()).stacks.values()]
    shown = sum(getattr(shown_by_jeprof(row, PERIOD), unit) for row in rows)
    assert total_in_jeprof(figure, dump, "/bin/true") == int(shown)
    estimated = sum(getattr(getattr(stack, which), unit) for stack in stacks.values())
    assert shown == pytest.approx(estimated, rel=1 / 60)


@needs_jeprof
def test_jeprof_shows_any_estimator_s_sums(make_sample: MakeSample, tmp_path: Path) -> None:
    """A chance per byte, which is exact where jemalloc rounds and takes an exponential."""
    dump = tmp_path / "dump.heap"
    samples = [make_sample(size, site=(0x10,)) for size in [16] * 3000 + [5000] * 2000]
    sums = totals_by(samples, lambda sample: sample.site, by_chance(per_byte))
    stacks = {site: DumpedStack(live=totals) for site, totals in sums.items()}
    dump.write_text(write(stacks, 1000, ""))
    assert total_in_jeprof("inuse_space", dump, "/bin/true") == pytest.approx(
        sums[0x10,].bytes, rel=1 / 5000
    )


@needs_jeprof
def test_jeprof_reads_the_document_s_vector(make_sample: MakeSample, tmp_path: Path) -> None:
    dump = tmp_path / "dump.heap"
    samples = [make_sample(size, site=(0x10,), period_bytes=2**19) for size in (16, 33554432)]
    dump.write_text(write(stacks_of(samples, []), 2**19, ""))
    assert total_in_jeprof("inuse_objects", dump, "/bin/true") == 32834
    assert total_in_jeprof("inuse_space", dump, "/bin/true") == 34112496


@needs_jeprof
def test_jeprof_finds_the_names_in_a_dump_that_carries_them(tmp_path: Path) -> None:
    dump = tmp_path / "dump.heap"
    stacks: dict[Site, DumpedStack] = {
        ("leaf", "caller", "main"): DumpedStack(live=Totals(3, 3 * 2**20)),
        ("caller", "main"): DumpedStack(live=Totals(1, 2**20)),
    }
    dump.write_text(write_with_names(stacks, PERIOD))
    ran = completed([str(JEPROF), "--text", str(dump)])
    rows = [line.split() for line in ran.stdout.splitlines()[1:]]
    assert [(row[5], float(row[0]), float(row[3])) for row in rows] == [
        ("leaf", 3.0, 3.0),
        ("caller", 1.0, 4.0),
        ("main", 0.0, 4.0),
    ]


@needs_jeprof
@pytest.mark.slow
def test_a_dump_of_the_stock_jemalloc_is_read_as_jeprof_reads_it(tmp_path: Path) -> None:
    """A Python with two threads that allocates by jemalloc and dumps when it ends."""
    settings = "prof:true,lg_prof_sample:12,prof_accum:true,prof_final:true,tcache:false"
    program = (
        "import threading; threading.Thread(target=lambda: [bytes(n) for n in range(99)]).start()"
    )
    subprocess.run(
        [sys.executable, "-S", "-c", program],
        check=True,
        env={
            "LD_PRELOAD": "libjemalloc.so.2",
            "MALLOC_CONF": f"{settings},prof_prefix:{tmp_path / 'dump'}",
            "PYTHONMALLOC": "malloc",
        },
        timeout=PATIENCE_SECONDS,
    )
    (dump,) = tmp_path.glob("dump.*")
    rows = read(dump.read_text()).stacks.values()
    shown = sum((shown_by_jeprof(row.allocated, PERIOD) for row in rows), Totals())
    assert shown.objects > 1000
    assert total_in_jeprof("alloc_space", dump, "/bin/true") == int(shown.bytes)
