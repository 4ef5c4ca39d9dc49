"""The other side of the protocol: every line has an answer."""

import io
import json
import sys

import pytest

from fuzz.protocol.actions import Action, Malloc
from fuzz.protocol.lines import BATCH_END, action_to_data, to_line
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target, name_of
from fuzz.targets import make_target
from fuzz.targets.__main__ import main
from fuzz.targets.process.serve import serve, serve_batch

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


class Settling:
    """The reference, whose samples are known only after a trace."""

    def __init__(self, target: Target) -> None:
        self.name, self.start = name_of(target), target.start
        self._perform = target.perform
        self._observations: list[Observation] = []

    def perform(self, action: Action) -> Observation:
        self._observations.append(self._perform(action))
        return self._observations[-1]

    def settle(self) -> None:
        for observation in self._observations:
            observation.samples = 7


NODE = '{"do": "allocate_node", "number": 1}'


@pytest.mark.parametrize(
    ("lines", "samples"),
    [
        ([HEADER, NODE], []),
        ([HEADER, NODE, NODE, BATCH_END], [7, 7]),
        ([HEADER, NODE, "nonsense", NODE, BATCH_END], [7, None, 7]),
    ],
    ids=["not complete", "complete", "with a wrong line"],
)
def test_the_actions_of_a_batch_are_answered_at_its_end(
    lines: list[str], samples: list[int | None], reference: Target
) -> None:
    out = io.StringIO()
    serve_batch(Settling(reference), lines, out)
    contract, *found = map(json.loads, out.getvalue().splitlines())
    assert contract.keys() == {"contract"}
    assert [each.get("samples") for each in found] == samples


def test_a_block_is_answered_with_an_observation() -> None:
    action = action_to_data(Malloc(61, thread=1))
    _, answer = answers(make_target("reference-jemalloc"), '{"gcfuzz": 2}', to_line(action))
    assert answer == {"size": 64}


@pytest.mark.parametrize(
    "names", [[], ["unknown"], ["fuzz:unknown"], ["no_module:target"], ["reference", "folder"]]
)
def test_an_unknown_target_ends_the_program_with_the_reason(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit, match=r"^python -m fuzz\.targets NAME: .*$"):
        main(*names)
