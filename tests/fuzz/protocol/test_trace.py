"""Traces as text: what is written reads back the same, and what cannot be read says where."""

import json
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import ACTIONS, Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import LazySeeds
from fuzz.protocol.lines import action_from_data, action_to_data, to_line
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import (
    VERSION,
    EarlierTrace,
    Found,
    Header,
    Trace,
    digest_of,
    dumps,
    loads,
    read,
    write_to,
)

HEADER = '{"gcfuzz": 2, "target": "reference"}\n'
SOME = Trace(Header(VERSION, "reference"), (do.AllocateString(17), do.Free(0)))

actions = st.one_of(
    [
        st.builds(action, **{field.name: ... for field in attrs.fields(action)})
        for action in ACTIONS.values()
    ]
)
texts = st.text(max_size=8)
found = st.builds(Found, texts, texts, texts, st.none() | st.integers())
headers = st.builds(
    Header,
    gcfuzz=st.just(VERSION),
    target=texts,
    config=st.dictionaries(texts, st.integers(), max_size=3),
    seed=st.none() | st.integers(),
    found=st.none() | found,
    kills=st.lists(texts, max_size=3).map(tuple),
)
traces = st.builds(Trace, headers, st.lists(actions, max_size=5).map(tuple))


def problem_of(text: str) -> str:
    with pytest.raises(BadInputError) as error:
        loads(text, "some.jsonl")
    return str(error.value)


# What is written reads back the same.


@pytest.mark.slow
@given(actions)
def test_an_action_reads_back_the_same(action: Action) -> None:
    assert action_from_data(json.loads(to_line(action_to_data(action)))) == action


@pytest.mark.slow
@given(traces)
def test_a_trace_reads_back_the_same(trace: Trace) -> None:
    assert loads(dumps(trace), "some.jsonl") == trace


@pytest.mark.slow
@given(traces)
def test_text_that_was_read_is_written_the_same(trace: Trace) -> None:
    text = dumps(trace)
    assert dumps(loads(text, "some.jsonl")) == text


def test_every_action_has_a_line_that_starts_with_its_name() -> None:
    for name, action in ACTIONS.items():
        fields: dict[str, Any] = {field.name: 0 for field in attrs.fields(action)}
        if "members" in fields:
            fields["members"] = ()
        assert to_line(action_to_data(action(**fields))).startswith(f'{{"do": "{name}"')


def test_a_trace_as_text() -> None:
    header = Header(VERSION, "reference", {"nursery_bytes": 512}, seed=7, kills=("a-bug",))
    assert dumps(Trace(header, (do.AllocateString(17), do.Write(0, 1, None)))) == (
        '{"gcfuzz": 2, "target": "reference", "config": {"nursery_bytes": 512}, "seed": 7, '
        '"kills": ["a-bug"]}\n'
        '{"do": "allocate_string", "length": 17}\n'
        '{"do": "write", "root": 0, "field": 1, "value": null}\n'
    )


def test_a_trace_without_actions_is_one() -> None:
    assert loads(HEADER, "some.jsonl").actions == ()


def test_arguments_that_have_a_default_may_be_left_out() -> None:
    assert action_from_data({"do": "disable_sampling"}) == do.DisableSampling(report=False)


def test_a_line_separator_inside_a_string_ends_no_line() -> None:
    assert loads('{"gcfuzz": 2, "target": "a\u2028b"}\n', "some.jsonl").header.target == "a\u2028b"


# What cannot be read.


def test_an_empty_file_is_bad_input() -> None:
    assert problem_of("").startswith("some.jsonl: the file is empty")


def test_a_truncated_last_line_is_bad_input() -> None:
    assert problem_of(HEADER + '{"do": "free", "ro').startswith("some.jsonl:2: the last line is tr")


def test_a_last_line_without_its_end_is_bad_input_even_if_it_could_be_read() -> None:
    assert problem_of(HEADER + '{"do": "collect_minor"}').startswith("some.jsonl:2: the last line")


@pytest.mark.parametrize("line", ["", "{", "do: free", "{'do': 'collect_minor'}", "\0"])
def test_a_line_that_is_not_json_is_bad_input(line: str) -> None:
    assert problem_of(f"{HEADER}{line}\n").startswith("some.jsonl:2: not a line of JSON")


@pytest.mark.parametrize("line", ["[]", "[1, 2]", "null", "17", '"free"', "true"])
def test_a_line_that_is_not_an_object_is_bad_input(line: str) -> None:
    assert problem_of(f"{HEADER}{line}\n") == "some.jsonl:2: a line must be a JSON object"


@pytest.mark.parametrize("line", ["[]", "null", "{}", '{"do": "collect_minor"}'])
def test_a_first_line_that_is_not_a_header_is_bad_input(line: str) -> None:
    assert problem_of(line + "\n").startswith("some.jsonl:1: the first line must be a header")


def test_a_second_header_is_bad_input() -> None:
    assert problem_of(HEADER + HEADER).startswith('some.jsonl:2: "do" must name an action')


@pytest.mark.parametrize("version", [0, 3, -1, "1", None, [1], {}])
def test_an_unknown_version_is_bad_input(version: object) -> None:
    problem = problem_of(to_line({"gcfuzz": version, "target": "reference"}) + "\n")
    assert problem.startswith(f"some.jsonl:1: version {json.dumps(version)} is unknown")


@pytest.mark.parametrize("version", ["true", "1.0", "2.0"])
def test_a_version_that_only_equals_the_known_one_is_bad_input(version: str) -> None:
    problem = problem_of(f'{{"gcfuzz": {version}, "target": "reference"}}\n')
    assert problem.startswith("some.jsonl:1: ")


@pytest.mark.parametrize("name", ['"fly"', "null", "1", "true", "[]", "{}"])
def test_an_unknown_action_is_bad_input(name: str) -> None:
    problem = problem_of(f'{HEADER}{{"do": {name}}}\n')
    assert problem == f'some.jsonl:2: "do" must name an action, and {name} is none'


def test_a_misspelt_action_is_reported_with_what_was_meant() -> None:
    assert problem_of(f'{HEADER}{{"do": "Free"}}\n').endswith(
        '"Free" is none; did you mean `free`?'
    )


def test_a_line_that_names_no_action_is_bad_input() -> None:
    assert problem_of(HEADER + '{"root": 1}\n').startswith('some.jsonl:2: "do" must name an action')


@pytest.mark.parametrize(
    "line",
    [
        '{"do": "free", "root": 0, "slot": 0}',
        '{"do": "free"}',
        '{"do": "free", "root": true}',
        '{"do": "free", "root": 1.5}',
        '{"do": "free", "root": 1.0}',
        '{"do": "free", "root": "1"}',
        '{"do": "free", "root": null}',
        '{"do": "free", "root": [1]}',
        '{"do": "write", "root": 0, "field": 0, "value": true}',
        '{"do": "write", "root": 0, "field": 0, "value": 1.5}',
        '{"do": "write", "root": 0, "field": 0}',
        '{"do": "allocate_node", "number": 1, "nonmovable": 1}',
        '{"do": "allocate_node", "number": 1, "nonmovable": "yes"}',
        '{"do": "collect_minor", "threads": 1}',
        '{"do": "collect_minor", "thread": true}',
        '{"do": "free", "root": NaN}',
    ],
)
def test_an_action_with_wrong_arguments_is_bad_input(line: str) -> None:
    assert problem_of(f"{HEADER}{line}\n").startswith("some.jsonl:2: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"target": None},
        {"target": 1},
        {"config": []},
        {"config": None},
        {"config": {"nursery_bytes": True}},
        {"config": {"nursery_bytes": 1.5}},
        {"config": {"nursery_bytes": "512"}},
        {"seed": 1.5},
        {"seed": True},
        {"found": "a bug"},
        {"found": []},
        {"found": {"oracle": "heap"}},
        {"found": {"oracle": "heap", "message": "", "engine": "", "reduced_from": True}},
        {"found": {"oracle": "heap", "message": "", "engine": "", "when": 1}},
        {"kills": [1]},
        {"kills": "a-bug"},
        {"kills": {"a-bug": 1}},
        {"excluded": ["sizes"]},
        {"excluded": "size"},
        {"colour": "red"},
    ],
    ids=json.dumps,
)
def test_a_header_with_wrong_fields_is_bad_input(fields: dict[str, object]) -> None:
    header = {"gcfuzz": 2, "target": "reference"} | fields
    assert problem_of(to_line(header) + "\n").startswith("some.jsonl:1: ")


@pytest.mark.parametrize(
    ("earlier", "problem"),
    [
        ({}, "earlier must be a list, and is {}"),
        ([{}, 1], "earlier[1] must be an object"),
        ([{"actions": {}}], "earlier[0].actions must be a list, and is {}"),
        ([{"actions": [{"do": "fly"}]}], 'earlier[0].actions[0] is not an action: "do" must name'),
        ([{"config": {"size": "512"}}], "earlier[0].config['size'] must be an integer, and is"),
        ([{"colour": "red"}], "the unknown key colour in earlier[0]"),
    ],
)
def test_malformed_earlier_traces_are_bad_input(earlier: object, problem: str) -> None:
    header = {"gcfuzz": 2, "target": "process", "earlier": earlier}
    assert problem_of(to_line(header) + "\n").startswith(f"some.jsonl:1: {problem}")


def test_a_trace_with_earlier_ones_reads_back_the_same() -> None:
    earlier = (EarlierTrace({"card_items": 0}, SOME.actions), EarlierTrace())
    trace = attrs.evolve(SOME, header=attrs.evolve(SOME.header, earlier=earlier))
    assert loads(dumps(trace), "some.jsonl") == trace


def test_a_header_without_a_target_is_bad_input() -> None:
    assert problem_of('{"gcfuzz": 2}\n').startswith("some.jsonl:1: ")


@pytest.mark.parametrize("depth", [100, 100_000])
@pytest.mark.parametrize("line", ['{"do": "free", "root": %s}', '{"do": %s}', "%s"])
def test_a_value_in_too_many_brackets_is_bad_input(line: str, depth: int) -> None:
    assert problem_of(HEADER + line % ("[" * depth + "]" * depth) + "\n").startswith("some.jsonl:2")


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ('{"gcfuzz": %s, "target": ""}\n', "some.jsonl:1: "),
        (HEADER + '{"do": %s}\n', "some.jsonl:2: "),
        (HEADER + '{"do": "free", "root": %s}\n', "some.jsonl:2: "),
    ],
)
def test_a_value_in_as_many_brackets_as_can_just_be_read_is_bad_input(
    lines: str, place: str
) -> None:
    limit = sys.getrecursionlimit()
    for depth in range(limit - 200, limit):
        assert problem_of(lines % ("[" * depth + "]" * depth)).startswith(place)


def test_more_lines_than_a_trace_may_have_are_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.protocol.trace.ACTIONS_MAX", 2)
    assert problem_of(HEADER + 2 * '{"do": "collect_minor"}\n').startswith("some.jsonl: more than")


@pytest.mark.slow
@given(texts)
@example("0\n")
def test_any_text_after_a_header_is_read_or_is_bad_input(text: str) -> None:
    try:
        trace = loads(HEADER + text + "\n", "some.jsonl")
    except BadInputError as error:
        assert str(error).startswith("some.jsonl:2: ")  # noqa: PT017 - either is right
    else:
        assert not trace.actions


# Files.


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"none\.jsonl: cannot be read: No such file"):
        read(tmp_path / "none.jsonl")


def test_a_folder_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_random_bytes_are_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "random.jsonl"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(BadInputError, match=r"random\.jsonl: not a text file"):
        read(path)


def test_a_file_that_was_written_reads_back_the_same(tmp_path: Path) -> None:
    write_to(SOME, tmp_path / "a.jsonl")
    assert read(tmp_path / "a.jsonl") == SOME


def test_writing_leaves_no_partial_file(tmp_path: Path) -> None:
    write_to(SOME, tmp_path / "a.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_digest_is_of_the_content() -> None:
    assert digest_of(SOME) == "07f4443c"


def test_how_a_trace_was_found_makes_no_other_digest() -> None:
    header = attrs.evolve(SOME.header, found=Found("heap", "some message", "stateful", 99))
    assert digest_of(attrs.evolve(SOME, header=header)) == digest_of(SOME)


def test_a_trace_under_another_configuration_has_another_digest() -> None:
    header = attrs.evolve(SOME.header, config={"nursery_bytes": 64})
    assert digest_of(attrs.evolve(SOME, header=header)) != digest_of(SOME)


def test_another_trace_has_another_digest() -> None:
    other = attrs.evolve(SOME, actions=(do.CollectMinor(), do.AllocateWeakref(0)))
    assert digest_of(other) != digest_of(SOME)


# Blocks and threads.


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (do.Malloc(9), '{"do": "malloc", "size_bytes": 9}'),
        (do.Malloc(9, thread=2), '{"do": "malloc", "size_bytes": 9, "thread": 2}'),
        (do.Calloc(2, 9), '{"do": "calloc", "count": 2, "size_bytes": 9}'),
        (do.Realloc(0, 9), '{"do": "realloc", "root": 0, "size_bytes": 9}'),
        (do.SetPeriod(64), '{"do": "set_period", "period_bytes": 64}'),
        (do.ReadProfile(thread=1), '{"do": "read_profile", "thread": 1}'),
    ],
    ids=str,
)
def test_the_line_of_an_action_names_its_thread_unless_it_is_the_first(
    action: Action, line: str
) -> None:
    assert to_line(action_to_data(action)) == line
    assert action_from_data(json.loads(line)) == action


@pytest.mark.parametrize("thread", ["1", 1.0, None, True], ids=repr)
def test_a_thread_is_a_number(thread: object) -> None:
    with pytest.raises(ValueError, match="thread"):
        action_from_data({"do": "malloc", "size_bytes": 9, "thread": thread})


def test_a_recording_of_an_allocator_reads_back_the_same(blocks: Contract) -> None:
    layout = attrs.evolve(blocks.layout, page_bytes=8192)
    rule = attrs.evolve(
        blocks.sampling,
        periods=(64, 100),
        counts="class_or_requested",
        realloc="when_moved",
        weights="passed",
        paused="counting",
        setting_period="drops",
        first_bytes=(50, None, 70),
        counting=LazySeeds((4, 5, 2**64 - 1)),
        estimates="weight",
    )
    contract = attrs.evolve(blocks, layout=layout, sampling=rule)
    message = Observation(1, size=256, offsets=[7], weights=[107], profile=[2, 512])
    trace = Trace(
        Header(VERSION, "reference", contract=contract),
        (do.Malloc(9, thread=2), do.ReadProfile()),
        (message, Observation(profile=[0, 0])),
    )
    assert loads(dumps(trace), "some.jsonl") == trace


def test_a_header_says_of_a_rule_only_what_is_not_the_papers(contract: Contract) -> None:
    [header] = dumps(Trace(Header(VERSION, "reference", contract=contract), ())).splitlines()
    rule = json.loads(header)["contract"]["sampling"]
    assert rule == {"period_bytes": {"minimum": 8, "maximum": 2**40, "multiple": 8}}
