"""The traces that a process has carried out before the present one: a failure may need them.

Invariant: there is one entry for each header that was sent to the process, with all actions that
were sent after it, whether or not their answers were read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from fuzz.protocol.actions import Action
from fuzz.protocol.trace import EarlierTrace

EARLIER_TRACES_MAX, EARLIER_ACTIONS_MAX = 256, 16_384
"""The limits of what is kept for one process, about 2 MB."""


class History:
    """The newest traces of a process, up to the limits."""

    def __init__(self) -> None:
        self._traces: deque[EarlierTrace] = deque()
        self._actions_count = 0
        self._config: dict[str, int] | None = None
        self._actions: list[Action] = []

    def begin(self, config: Mapping[str, int]) -> tuple[EarlierTrace, ...]:
        """A header is sent. Returns the traces before it."""
        if self._config is not None:
            self._traces.append(EarlierTrace(self._config, tuple(self._actions)))
            self._actions_count += len(self._actions)
        while len(self._traces) > EARLIER_TRACES_MAX or self._actions_count > EARLIER_ACTIONS_MAX:
            self._actions_count -= len(self._traces.popleft().actions)
        self._config, self._actions = dict(config), []
        return tuple(self._traces)

    def add(self, action: Action) -> None:
        self._actions.append(action)
