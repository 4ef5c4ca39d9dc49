"""The traces that a process has carried out before the present one: a failure may need them.

Invariant: there is one entry for each header that was sent to the process, so that a defect that
counts headers shows at the same one again. The newest entries have all actions that were sent after
their header, whether or not their answers were read; older ones have none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from fuzz.protocol.actions import Action
from fuzz.protocol.trace import EarlierTrace

EARLIER_TRACES_MAX, EARLIER_ACTIONS_MAX = 256, 16_384
"""The limits of the entries with actions in one process, about 2 MB."""


class History:
    """The traces of a process; up to the limits the newest ones have their actions."""

    def __init__(self) -> None:
        self._without_actions: list[EarlierTrace] = []
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
            oldest = self._traces.popleft()
            self._actions_count -= len(oldest.actions)
            self._without_actions.append(EarlierTrace(oldest.config))
        self._config, self._actions = dict(config), []
        return (*self._without_actions, *self._traces)

    def add(self, action: Action) -> None:
        self._actions.append(action)
