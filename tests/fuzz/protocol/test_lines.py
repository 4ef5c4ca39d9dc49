"""What is read from a line is what was declared, or a mistake that is message."""

import json
import re

import pytest

from fuzz.protocol.contract import Contract
from fuzz.protocol.lines import (
    action_from_data,
    contract_from_data,
    from_line,
    observation_from_data,
    to_line,
    unstructured,
)
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import header_from_data
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES


@pytest.mark.parametrize("field", ["samples", "minors"])
@pytest.mark.parametrize("count", [-1, 2**62 + 1, 10**400], ids=["negative", "large", "huge"])
def test_what_no_target_can_have_counted_is_a_mistake(field: str, count: int) -> None:
    with pytest.raises(ValueError, match=rf"{field} is .{{1,41}}; it must be from 0 to"):
        observation_from_data({field: count})
    with pytest.raises(ValueError, match=rf"{field} is .{{1,41}}; it must be from 0 to"):
        observation_from_data({"members": [{}, {field: count}]})


def test_the_answer_for_each_member_is_read_as_it_was_written() -> None:
    answer = Observation(members=[Observation(samples=1, graph=[[1, 0]]), Observation()])
    assert observation_from_data(from_line(to_line(unstructured(answer)))) == answer


@pytest.mark.parametrize("depth", [2, 100, 10_000])
def test_the_answer_for_a_member_has_none_for_its_members(depth: int) -> None:
    line = '{"members": [' * depth + "{}" + "]}" * depth
    with pytest.raises(ValueError, match=r"members|not a line"):
        observation_from_data(from_line(line))


@pytest.mark.parametrize("count", [0, 2**62])
def test_what_a_target_may_have_counted_is_read(count: int) -> None:
    assert observation_from_data({"samples": count}) == Observation(samples=count)


def complaint_of_contract(contract: Contract, sampling: dict[str, object]) -> str:
    """What is said of the contract with these keys in its rule."""
    data = unstructured(contract)
    with pytest.raises(ValueError, match="sampling") as caught:
        contract_from_data({**data, "sampling": {**data["sampling"], **sampling}})
    return str(caught.value)


def test_an_illegal_value_is_reported_with_the_legal_ones(contract: Contract) -> None:
    message = complaint_of_contract(contract, {"distances": "poisson"})
    assert message.startswith(
        'sampling.distances is "poisson"; it must be one of period, unstated, '
    )
    assert "Literal" not in message


def test_an_illegal_value_in_a_list_is_reported_with_its_place(contract: Contract) -> None:
    message = complaint_of_contract(contract, {"disabling": ["drop", "keep"]})
    assert message == 'sampling.disabling[1] is "keep"; it must be one of drop, report'


def test_a_value_of_another_type_is_reported_with_the_legal_ones(contract: Contract) -> None:
    message = complaint_of_contract(contract, {"crosses": [1]})
    assert message == "sampling.crosses is [1]; it must be one of beyond, at"


@pytest.mark.parametrize("data", [[1], 7, "often"])
def test_what_is_no_object_is_reported_with_its_place(data: object, contract: Contract) -> None:
    stated = {**unstructured(contract), "exhaustion": data}
    with pytest.raises(ValueError, match=r"^exhaustion must be an object$"):
        contract_from_data(stated)


def test_an_unknown_key_is_reported_with_its_place(contract: Contract) -> None:
    assert complaint_of_contract(contract, {"foo": 1}) == "the unknown key foo in sampling"


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"distance": "period"}, "the unknown key distance in sampling; did you mean `distances`?"),
        ({"disabling": ["drp"]}, 'sampling.disabling[0] is "drp"; did you mean `drop`?'),
    ],
)
def test_a_misspelt_key_or_word_is_reported_with_what_was_meant(
    rule: dict[str, object], complaint: str, contract: Contract
) -> None:
    assert complaint_of_contract(contract, rule) == complaint


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        ({"do": "malloc", "size_bytes": 1, "foo": 1}, "the unknown key foo"),
        ({"do": "malloc", "size_bytes": 1, "foo": 1, "bar": 1}, "the unknown keys bar, foo"),
        ({"do": "malloc"}, "size_bytes is missing"),
        ({"do": "malloc", "foo @ $.bar": 1}, "the unknown key foo @ $.bar; size_bytes is missing"),
    ],
)
def test_unknown_and_missing_keys_are_reported(action: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        action_from_data(action)


def test_a_number_is_not_a_list() -> None:
    with pytest.raises(ValueError, match="offsets must be a list, and is 5"):
        observation_from_data({"offsets": 5})


@pytest.mark.parametrize("graph", [[1], [[1, True]], [[1], 2], [[1], ["2"]], [[[1]]], [[1.0]]])
def test_a_graph_has_rows_of_integers_only(graph: object) -> None:
    with pytest.raises(ValueError, match=r"^graph.* must be "):
        observation_from_data({"graph": graph})


@pytest.mark.parametrize("graph", [[], [[]], [[1, 2], [3]]])
def test_the_rows_of_a_graph_are_read(graph: list[list[int]]) -> None:
    assert observation_from_data({"graph": graph, "memory": [1, 2]}).graph == graph


@pytest.mark.parametrize(
    "line",
    [
        '{"free": 1, "free": 1}',
        '{"fr:ee": 1, "fr:ee": 1}',
        '{"reports": [{"entries": [], "entries": []}]}',
        '{"contract": {"actions": 1, "actions": 1}}',
    ],
)
def test_a_key_that_occurs_twice_is_a_mistake(line: str) -> None:
    with pytest.raises(ValueError, match="a key occurs twice"):
        from_line(line)


@pytest.mark.parametrize("line", ['{"error": "a: b"}', ' {"free": 1} ', '{"a": {"b": 1}}', "[1]"])
def test_a_line_is_read_as_json_reads_it(line: str) -> None:
    assert from_line(line) == json.loads(line)


@pytest.mark.parametrize("name", REFERENCES)
def test_a_contract_is_read_as_it_was_written(name: str) -> None:
    contract = make_target(name).start({})
    assert contract_from_data(json.loads(to_line(unstructured(contract)))) == contract


@pytest.mark.parametrize("wrong", [5, [1], {"a": "b"}, {"a": True}, None, "text"])
def test_what_is_not_as_declared_within_a_header_is_a_mistake(wrong: object) -> None:
    with pytest.raises(ValueError, match="config"):
        header_from_data({"gcfuzz": 2, "target": "reference", "config": wrong})
