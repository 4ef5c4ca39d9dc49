"""A way to count is one page: a class with its keys, a clock, a section of the documentation."""

import ast
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

import fuzz
from fuzz.mutator.objects import ShadowObject
from fuzz.oracles.counting import clocks_of
from fuzz.protocol.contract import DRAWN, Contract, Range, SamplingRule
from fuzz.protocol.counting import WAYS, Bytes, Way
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.lines import structured, unstructured

LINES_MAX = 150
PACKAGE = Path(str(fuzz.__file__)).parent
RULES, CLOCKS = PACKAGE / "protocol" / "counting", PACKAGE / "oracles" / "counting"
PAGE = Path(__file__).parents[2] / "docs" / "sampling-rules.md"
OF_OBJECTS = {*ShadowObject.__slots__, "callback_bytes"}
"""Names of keys that an object, or the mutator, has too."""


def keys_of(way: type[Way]) -> set[str]:
    return {field.name for field in attrs.fields(way)}


def names_read_in(path: Path) -> set[str]:
    """The attributes that a module reads."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def is_of_one_way(path: Path) -> bool:
    """Whether a module may know a way: its own ones, and the targets, which state contracts."""
    of_ways = path.stem in WAYS or path == CLOCKS / "eden.py"
    return PACKAGE / "targets" in path.parents or (path.parent in (RULES, CLOCKS) and of_ways)


GENERIC = [path for path in PACKAGE.rglob("*.py") if not is_of_one_way(path)]


def section_of(by: str) -> str:
    section: str
    [section] = re.findall(
        rf"^## {by}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return section


@pytest.mark.slow
def test_no_other_part_reads_a_key_of_one_way() -> None:
    """Above all not the base class of the clocks."""
    shared = {field.name for field in attrs.fields(SamplingRule)} | OF_OBJECTS
    keys = set().union(*map(keys_of, WAYS.values())) - shared
    assert CLOCKS / "clock.py" in GENERIC
    read = {str(path): names_read_in(path) & keys for path in GENERIC}
    assert {path: names for path, names in read.items() if names} == {}


@pytest.mark.slow
def test_no_other_part_names_the_class_of_one_way() -> None:
    classes = {way.__name__ for way in WAYS.values() if way is not Bytes}
    for path in set(GENERIC) - {RULES / "__init__.py"}:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert {node.id for node in nodes if isinstance(node, ast.Name)} & classes == set(), path


@pytest.mark.parametrize("folder", [RULES, CLOCKS], ids=["rules", "clocks"])
def test_each_way_has_a_module_of_its_name(folder: Path) -> None:
    shared = {"__init__", "way", "limits", "clock", "expected", "eden"}
    assert {path.stem for path in folder.glob("*.py")} - shared == WAYS.keys()


def test_all_distances_that_are_drawn_have_a_module_of_their_name() -> None:
    modules = {path.stem for path in (CLOCKS / "distances").glob("*.py")}
    assert modules - {"__init__", "generator", "period"} == {*DRAWN}


@pytest.mark.parametrize(
    "path", [*RULES.glob("*.py"), *CLOCKS.rglob("*.py")], ids=lambda path: path.stem
)
def test_each_module_is_at_most_a_page(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("by", WAYS)
def test_each_way_has_a_section_with_a_row_for_each_of_its_keys(by: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", section_of(by), re.MULTILINE)
    assert {*rows} == keys_of(WAYS[by])
    assert len(rows) == len({*rows})
    assert f"| [`{by}`](#{by}) |" in PAGE.read_text()


@pytest.mark.parametrize("by", WAYS)
def test_a_row_says_which_keys_are_required(by: str) -> None:
    section = section_of(by)
    for field in attrs.fields(WAYS[by]):
        [words] = re.findall(rf"^\| `{field.name}` \| (.*) \|$", section, re.MULTILINE)
        assert words.startswith("required") == (field.default is attrs.NOTHING), field.name


# On the wire.

PLAIN = Contract(
    nursery_bytes=512,
    layout=Layout({"string": KindLayout(4, 16, 1)}, 257, 8, 2**16),
    actions=("allocate_string", "enable_sampling"),
    observes=("samples",),
    sampling=SamplingRule(Range(8, 2**20, 8), disabling=("drop",)),
)


def test_a_contract_that_leaves_counting_out_counts_bytes() -> None:
    data = unstructured(PLAIN)
    assert "counting" not in data["sampling"]
    contract = structured(data, Contract)
    assert contract.sampling.counting == Bytes()
    assert contract == PLAIN
    data["sampling"]["counting"] = {"by": "bytes"}
    assert structured(data, Contract) == PLAIN


@pytest.mark.parametrize("by", WAYS)
def test_a_way_keeps_its_keys_on_the_wire(by: str) -> None:
    values = {"charges": "ahead", "seeds": (7,)}
    required = {
        field.name: values.get(field.name, 8)
        for field in attrs.fields(WAYS[by])
        if field.default is attrs.NOTHING
    }
    way: Any = WAYS[by](**required)
    rule = attrs.evolve(PLAIN.sampling, counting=way)
    data = unstructured(attrs.evolve(PLAIN, sampling=rule))
    assert structured(data, Contract).sampling.counting == way


@pytest.mark.parametrize(
    ("counting", "problem"),
    [
        ({"by": "context"}, 'by "context"; did you mean `contexts`?'),
        ({"by": "moons"}, "it must be by one of bytes, contexts, buffers, streams, net_bytes"),
        ({}, "it must be by one of bytes"),
        ({"by": 1}, "it must be by one of bytes"),
        ("contexts", "must be a JSON object"),
        ({"by": "contexts"}, "context_bytes is missing"),
        ({"by": "contexts", "context_bytes": "64"}, "context_bytes"),
        ({"by": "bytes", "context_bytes": 64}, "the unknown key context_bytes"),
        ({"by": "net_bytes", "unsampled_byte": 64}, "did you mean `unsampled_bytes`?"),
    ],
    ids=str,
)
def test_what_is_wrong_with_counting_is_said(counting: object, problem: str) -> None:
    data = unstructured(PLAIN)
    data["sampling"]["counting"] = counting
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - looked at below
        structured(data, Contract)
    assert problem in str(caught.value)
    assert "sampling.counting" in str(caught.value)


def test_plain_bytes_have_the_plain_clocks() -> None:
    assert [type(clock).__module__ for clock in clocks_of(PLAIN)] == ["fuzz.oracles.counting.bytes"]
