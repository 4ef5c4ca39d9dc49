"""A session's plan for tests of Dask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_machines import TARGET

from fuzz.sessions import dask_tasks
from fuzz.sessions.plan import Plan


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    """Its processes end with the test."""
    made = Plan(TARGET, "random", 3, 1, tmp_path, actions=3000)
    yield made
    dask_tasks.end_processes(made.token)
