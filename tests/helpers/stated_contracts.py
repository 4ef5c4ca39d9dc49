"""What contracts may state: a correct base for each kind of contract, and problems of changes."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from fuzz.protocol.contract import AtOnce, Contract, SamplingRule
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import Buffers, Contexts, Streams
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.layout import Layout

Mistake = tuple[dict[str, Any], dict[str, Any], str]
"""Changes that leave a contract correct, a change that does not, and how its sentence begins."""
PLAIN: dict[str, Any] = {"observes": ("minors", "value", "samples", "order")}
LIMITED: dict[str, Any] = {
    "actions": ("allocate_node", "free"),
    "observes": ("minors", "exhausted"),
    "exhaustion": Exhaustion(64),
}
ONE: dict[str, Any] = {"surplus": "dropped", "samples_per_allocation": "one"}
DUE: dict[str, Any] = {"surplus": "due", "samples_per_allocation": "one"}
WITHOUT_CALLBACKS = ("allocate_node", "allocate_string", "enable_sampling", "disable_sampling")
CONTEXTS: dict[str, Any] = {
    **ONE,
    "actions": WITHOUT_CALLBACKS,
    "observes": ("minors", "samples", "value", "alive"),
    "distances": "dotnet_document",
    "counting": Contexts(64),
}
STREAMS: dict[str, Any] = {
    "actions": WITHOUT_CALLBACKS,
    "observes": ("samples", "minors", "size", "graph"),
    "distances": "ocaml",
    "counting": Streams(postponed=("string",), renewed_by=("collections", "callbacks")),
}
TLABS = Buffers(64, 64, 16, 8, 8, "allocated", generators="shared")
BUFFERS: dict[str, Any] = {
    **ONE,
    "nursery_bytes": 512,
    "nonmovable": "ignored",
    "object_bytes_max": 64,
    "large_object_bytes": 65,
    "observes": ("samples", "minors", "at"),
    "actions": ("allocate_node", "enable_sampling"),
    "distances": "hotspot",
    "enabling": "keeps",
    "first_bytes": (8,),
    "counting": TLABS,
}
AT_ONCE: dict[str, Any] = {
    "actions": ("allocate_node", "run_at_once", "enable_sampling"),
    "observes": ("samples", "minors", "shares"),
    "distances": "unstated",
    "at_once": AtOnce(unseen_bytes=8),
}
BLOCKS: dict[str, Any] = {}
FINALIZERS = ("allocate_node", "register_finalizer")
PERIOD: dict[str, Any] = {"distances": "period", "first_bytes": ()}


def changed(contract: Contract, **changes: Any) -> Contract:
    """The contract with other values, each in the part that has such a key."""
    layout, rule, own = (
        {key: value for key, value in changes.items() if key in attrs.fields_dict(part)}
        for part in (Layout, SamplingRule, Contract)
    )
    parts = {
        "layout": attrs.evolve(contract.layout, **layout),
        "sampling": attrs.evolve(contract.sampling, **rule),
    }
    return attrs.evolve(contract, **{**parts, **own})


def problems_with(contract: Contract, **changes: Any) -> list[str]:
    return list(problems_of(changed(contract, **changes)))


def each_mistake(mistakes: Sequence[Mistake]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mistake", mistakes, ids=[each[2] for each in mistakes])


def first_problem(contract: Contract, blocks: Contract, mistake: Mistake) -> str:
    """The first problem of a correct contract after a mistake."""
    base, change, _ = mistake
    right = blocks if base is BLOCKS else changed(contract, **base)
    assert list(problems_of(right)) == []
    return problems_with(right, **change)[0]
