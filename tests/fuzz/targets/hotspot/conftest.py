"""Installed virtual machines, and the targets that run them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hotspot_sessions import AHEAD, ALLOCATED, AS_DOCUMENTED
from target_helpers import java_folder

from fuzz.protocol.target import FullTarget, full
from fuzz.targets import TargetOptions, make_target


@pytest.fixture(scope="module", params=[pytest.param(AHEAD, marks=pytest.mark.slow), ALLOCATED])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def java(version: str) -> Path:
    return java_folder(version)


@pytest.fixture(scope="module")
def target(java: Path) -> FullTarget:
    return full(make_target("hotspot", TargetOptions(paths={"java": java})))


@pytest.fixture(scope="module")
def as_documented(java: Path) -> FullTarget:
    return full(make_target(AS_DOCUMENTED, TargetOptions(paths={"java": java})))
