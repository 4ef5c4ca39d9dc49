"""The other side of the protocol: every line has an answer."""

import io
import json
import sys
from collections.abc import Mapping

import pytest

from fuzz.oracles import Bench
from fuzz.protocol.actions import Action, Calloc, Free, Malloc, Realloc
from fuzz.protocol.contract import Contract
from fuzz.protocol.lines import action_to_data, contract_from_data, observation_from_data, to_line
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.targets.__main__ import main
from fuzz.targets.process.serve import serve

HEADER = '{"gcfuzz": 2, "target": "process", "config": {"nursery_bytes": 512}}'


def answers(target: Target, *lines: str) -> list[dict[str, object]]:
    out = io.StringIO()
    serve(target, lines, out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_header_is_answered_with_the_contract(reference: Target) -> None:
    [answer] = answers(reference, HEADER)
    assert answer.keys() == {"contract"}


def test_a_header_may_have_other_keys(reference: Target) -> None:
    [answer] = answers(reference, '{"gcfuzz": 2, "found": 7, "whatever": []}')
    assert answer.keys() == {"contract"}


def test_an_action_is_answered_with_an_observation(reference: Target) -> None:
    _, answer = answers(reference, HEADER, '{"do": "allocate_node", "number": 1}')
    assert (answer["size"], answer["at"], answer["top"]) == (32, 0, 512)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("nonsense", "ValueError: not a line of JSON"),
        ("[]", "ValueError: a line must be a JSON object"),
        ('{"do": "nothing"}', 'ValueError: "do" must name an action'),
        ('{"gcfuzz": 2, "config": {"nursery_bytes": 7}}', "BadInputError: nursery_bytes is 7"),
        ('{"gcfuzz": 2, "config": {"nursery_bytes": "7"}}', "ValueError: "),
    ],
)
def test_the_answer_to_a_wrong_line_is_an_error(reference: Target, line: str, error: str) -> None:
    _, answer = answers(reference, HEADER, line)
    assert str(answer["error"]).startswith(error)


class Allocator:
    """Blocks whose samples the sampling oracle predicts."""

    name = "allocator"

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._bench = Bench(contract)

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._bench = Bench(self._contract)
        return self._contract

    def perform(self, action: Action) -> Observation:
        observation = Observation(self._bench.predict(action, minors=0))
        if isinstance(action, Malloc | Calloc | Realloc):
            root = action.root if isinstance(action, Realloc) else -1
            observation.size = self._bench.shadow.roots[root].size_bytes
            observation.offsets = [hit.offset for hit in self._bench.sampling.hits]
        return observation


def test_an_allocator_of_blocks_and_threads_is_served(blocks: Contract) -> None:
    actions = (Malloc(9), Malloc(61, thread=1), Realloc(0, 9, thread=2), Calloc(2, 30), Free(0))
    lines = [to_line(action_to_data(action)) for action in actions]
    header, *others = answers(Allocator(blocks), HEADER, *lines)
    assert contract_from_data(header["contract"]) == blocks
    assert [observation_from_data(each) for each in others] == [
        Observation(size=16),
        Observation(1, size=64, offsets=[60]),
        Observation(size=16),
        Observation(1, size=64, offsets=[34]),
        Observation(),
    ]


@pytest.mark.parametrize(
    "names", [[], ["unknown"], ["fuzz:unknown"], ["no_module:target"], ["reference", "folder"]]
)
def test_an_unknown_target_ends_the_program_with_the_reason(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit, match=r"^python -m fuzz\.targets NAME: .*$"):
        main(*names)
