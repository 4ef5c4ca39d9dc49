"""Contracts that differ from another one in their sampling rule or their layout."""

from typing import Any

import attrs

from fuzz.protocol.contract import Contract


def with_rule(contract: Contract, **rule: Any) -> Contract:
    return attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, **rule))


def with_layout(contract: Contract, **layout: Any) -> Contract:
    return attrs.evolve(contract, layout=attrs.evolve(contract.layout, **layout))
