"""Reduces a failure of any engine to a few readable actions.

The reducer works on concrete actions: it removes some, replaces a run of them by one action without
arguments, merges allocations and objects, lowers integers, drops settings and flips switches, until
nothing helps. If a failure needs earlier traces of its process, these are reduced first, each
candidate in a new process. A candidate counts only if it fails with the same identity, so that one
bug never turns into another.

The search ends when nothing helps, or when a number of candidates in a row did not help. That does
not depend on a clock. It ends early if its candidates, its actions or its time are used up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import TypeVar, cast

import attrs

from fuzz.cancellation import Cancelled, after, cancelled_when, checkpoint
from fuzz.drawing.forecast import cost_of
from fuzz.failure import Failure, Reaching
from fuzz.failures.compare import run_again
from fuzz.failures.named_slots import (
    ContractChangedError,
    Named,
    name_slots,
    number_slots,
    tail_of,
    without,
)
from fuzz.failures.smaller_groups import smaller_groups
from fuzz.failures.smaller_integers import LONG_STEP, lower_than, simpler_values
from fuzz.protocol import actions as kinds
from fuzz.protocol.actions import SLOT_FIELDS, Action, EnableSampling
from fuzz.protocol.contract import Contract, Setting, problem_of_configuration
from fuzz.protocol.observation import HANG
from fuzz.protocol.target import Target, full
from fuzz.protocol.trace import EarlierTrace
from fuzz.replay import tries_for

Found = TypeVar("Found", bound=Failure | Reaching)
ATTEMPTS_MAX = 20_000
"""Candidates that are run for one failure."""
STEPS_MAX = 500_000
"""Actions that are performed for one failure. A budget of seconds would not be reproducible."""
IDLE_ATTEMPTS_MAX, IDLE_STEPS_MAX = ATTEMPTS_MAX // 10, STEPS_MAX // 4
"""A search ends after this many candidates or actions in a row that made nothing smaller.

Before, a reduction that removed nothing took a session's whole overtime: 60 s became 121 s."""
START_STEPS, HANG_STEPS = 2_500, 50_000
"""Actions that a start of a program counts as, and a program that does not answer.

With a process for each of 20,000 candidates, one reduction took a quarter of an hour."""
SECONDS_MAX = 120.0
"""The limit where a user waits and the result need not be reproducible."""
TOGETHER_STEPS = (4096, 1024, 256, 64, 8, 1)
SEED = "sampler_seed"
"""The setting with the seed of random distances, by convention."""
SEEDS_TRIED = 48
SEEDS_TRIED_AFRESH = 6
"""The same if each candidate starts a program, so that a program is started only 200 times."""
SEEDS_TRIED_AGAIN = 12
"""The same for a trace that keeps its length: any other seed may do, and after it all candidates
are tried again. With 6, one known bug's trace had four actions, and not three; with 48, one took
5,344 candidates, and not 2,231."""
TAILS = (1, 2, 3, 4, 6, 8, 12)
"""Lengths of the end of a trace that may be all that is needed."""
SETTING = -1
"""In place of an action's position: the integer belongs to a setting."""
_Place = tuple[int, str]
"""An action's position, or SETTING, and the name of an integer there."""
USED_UP, OUT_OF_TIME = "its candidates were used up", "its time was up"
"""Why a search ended early."""
FILLERS: tuple[Action, ...] = (
    *(kinds.CollectMinor(), kinds.DisableSampling()),
    *(kinds.CollectStep(), kinds.CollectFull()),
)


class NothingHelpsError(Exception):
    """Many candidates in a row made nothing smaller."""


def _earlier_of(failure: Failure | Reaching) -> tuple[EarlierTrace, ...]:
    return failure.earlier if isinstance(failure, Failure) else ()


def _is_hang(failure: Failure | Reaching) -> bool:
    return isinstance(failure, Failure) and failure.got.startswith(HANG)


class Reducer:
    """Reduces one failure of one target, or a trace that reaches a probe.

    `failure` is always the smallest so far. `attempts` counts the candidates that were run. No
    candidate is tried twice, but one that fails in a new process has to fail in the next one, too.
    `report` gets that number for each.
    """

    def __init__(
        self,
        target: Target,
        failure: Failure | Reaching,
        attempts_max: int = ATTEMPTS_MAX,
        report: Callable[[int], None] | None = None,
    ) -> None:
        self._target = full(target)
        self._attempts_max = attempts_max
        self._report = report
        self._steps_left = STEPS_MAX
        self._helped_at = 0, STEPS_MAX
        """The attempts, and the steps left, when a candidate last helped or a search began."""
        self._start_steps = START_STEPS if self._target.starts_afresh else 0
        self._tried: set[tuple[object, ...]] = set()
        self._promised: tuple[dict[str, int], Contract] | None = None
        self._named_of: tuple[Failure | Reaching, list[Named]] | None = None
        self.failure = failure
        self.attempts = 0
        self.ended_early = ""
        """Why the search ended although smaller failures may be near."""

    def reduce_until(self, is_over: Callable[[], bool]) -> None:
        """Search as long as that helps, and until it is over."""
        try:
            with suppress(ContractChangedError), cancelled_when(is_over):
                self.reduce()
        except Cancelled:
            self.ended_early = USED_UP if self._is_used_up else OUT_OF_TIME

    def reduce(self) -> None:
        """Search for the smallest failure of the same identity, then again with flipped switches.

        Raises Cancelled when the attempts are used up, and ContractChangedError.
        """
        self._while_it_helps(self._reduce_earlier)
        self._while_it_helps(self._reduce)
        for setting in self._contract.settings:
            if (setting.range.minimum, setting.range.maximum) == (0, 1):
                self._while_it_helps(functools.partial(self._flip, setting))

    def _while_it_helps(self, search: Callable[[], None]) -> None:
        self._helped_at = self.attempts, self._steps_left
        with suppress(NothingHelpsError):
            search()

    @property
    def _is_used_up(self) -> bool:
        return self.attempts >= self._attempts_max or self._steps_left <= 0

    def _check_budget(self) -> None:
        """Raises Cancelled and NothingHelpsError."""
        if self._is_used_up:
            raise Cancelled
        attempts, steps_left = self._helped_at
        is_idle = self.attempts - attempts >= IDLE_ATTEMPTS_MAX
        if is_idle or steps_left - self._steps_left >= IDLE_STEPS_MAX:
            raise NothingHelpsError

    def _reduce_earlier(self) -> None:
        """Remove earlier traces, large groups first, and then their actions."""
        for length in (0, 1):
            cut = [attrs.evolve(each, actions=each.actions[:length]) for each in self._earlier]
            if self._accept_earlier(cut):
                break
        for size in _halves(len(self._earlier)):
            start = len(self._earlier) - size
            while start >= 0 and len(self._earlier) > size:
                self._accept_earlier([*self._earlier[:start], *self._earlier[start + size :]])
                start = min(start - size, len(self._earlier) - size)
        for place in range(len(self._earlier)):
            actions = self._earlier_at(place).actions
            any(
                self._accept_instead_of_earlier(place, simpler)
                for simpler in (EarlierTrace(), EarlierTrace(actions=actions))
            )
            self._shorten_earlier(place)
            # Often a process counts traces, and their actions do not matter.
            self._accept_earlier([self._earlier_at(place)] * len(self._earlier))

    def _shorten_earlier(self, place: int) -> None:
        """Remove runs of actions of an earlier trace, long ones first, from end to start."""
        length = len(self._earlier_at(place).actions)
        if not length:
            return
        contract = self._target.start(self._earlier_at(place).config)
        for size in (length, *_halves(length)):
            start = len(self._earlier_at(place).actions) - size
            while start >= 0:
                each = self._earlier_at(place)
                named = without(name_slots(contract, each.actions), range(start, start + size))
                shorter = attrs.evolve(each, actions=tuple(number_slots(contract, named)))
                self._accept_instead_of_earlier(place, shorter)
                start -= size

    def _earlier_at(self, place: int) -> EarlierTrace:
        """An earlier trace; an empty one if there are fewer by now."""
        return self._earlier[place] if place < len(self._earlier) else EarlierTrace()

    def _accept_instead_of_earlier(self, place: int, trace: EarlierTrace) -> bool:
        others = self._earlier
        changed = [*others[:place], trace, *others[place + 1 :]]
        return place < len(others) and self._accept_earlier(changed)

    @property
    def _earlier(self) -> tuple[EarlierTrace, ...]:
        return _earlier_of(self.failure)

    def _accept_earlier(self, earlier: Sequence[EarlierTrace]) -> bool:
        """Run the same actions after other traces; keep these if the failure is the same."""
        failure = self.failure
        if not isinstance(failure, Failure) or not earlier:
            return False
        candidate = attrs.evolve(failure, earlier=tuple(earlier))
        return self._accept(failure.configuration, failure.actions, candidate)

    def _flip(self, switch: Setting) -> None:
        """With the other value, a failure that is larger at first may become shorter.

        Other candidates follow only if removing actions has helped. Before, they were a quarter of
        all candidates, and 321 reductions have the same results without them.
        """
        before = self.failure
        flipped = 1 - before.configuration.get(switch.name, switch.default)
        if self._accept({**before.configuration, switch.name: flipped}, before.actions):
            try:
                self._shorten()
                if len(self.failure.actions) < len(before.actions):
                    self._reduce()
            finally:
                if len(self.failure.actions) >= len(before.actions):
                    self.failure = before

    def _reduce(self) -> None:
        before = None
        while before != self.failure:
            before = self.failure
            self._shorten()
            self._replace_actions()
            self._at_each_action(self._merge_allocations)
            self._at_each_action(self._replace_object)
            self._at_each_action(self._shrink_group)
            self._simplify_settings()
            self._lower_integers()
            self._lower_together()

    def _shorten(self) -> None:
        """Remove actions."""
        if self._contract.batch:
            self._drop_settings()  # They may change all that a batch does.
        self._remove_actions()
        self._keep_the_end()
        self._remove_with_another_seed()
        self._at_each_action(self._remove_with_a_collection)

    @property
    def _contract(self) -> Contract:
        """The contract under the failure's configuration."""
        if self._promised is None or self._promised[0] != self.failure.configuration:
            promised = self._target.start(self.failure.configuration)
            self._promised = self.failure.configuration, promised
        return self._promised[1]

    @property
    def _named(self) -> list[Named]:
        """The actions of the failure with their slots named."""
        if self._named_of is None or self._named_of[0] is not self.failure:
            named = name_slots(self._contract, self.failure.actions, self.failure.exhausted)
            self._named_of = self.failure, named
        return self._named_of[1]

    def _accept(
        self,
        configuration: dict[str, int],
        actions: Sequence[Action],
        wanted: Failure | Reaching | None = None,
    ) -> bool:
        """Run a candidate; keep it if the failure is the same.

        `wanted` is the failure to see again, if it needs other earlier traces.
        """
        checkpoint()
        if not actions:
            return False  # Only an answer to an action can be wrong.
        wanted = wanted or self.failure
        earlier = _earlier_of(wanted)
        before = tuple((*sorted(each.config.items()), *each.actions) for each in earlier)
        candidate = (before, *sorted(configuration.items()), *actions)
        if candidate in self._tried:
            return False
        self._check_budget()
        self._tried.add(candidate)
        self.attempts += 1
        if self._report is not None:
            self._report(self.attempts)
        again = self._run_again(wanted, configuration, actions)
        if again is not None and self._may_be_chance(again):
            again = self._run_again(wanted, configuration, actions)
        if again is None:
            return False
        self.failure = again
        self._helped_at = self.attempts, self._steps_left
        return True

    def _may_be_chance(self, again: Failure | Reaching) -> bool:
        """Whether it may pass in the next process, which has other addresses.

        Races may always do that, and a program that does not answer takes too long.
        """
        is_racing = tries_for(again.actions) > 1
        return self._target.starts_afresh and not _is_hang(again) and not is_racing

    def _run_again(
        self, wanted: Failure | Reaching, configuration: dict[str, int], actions: Sequence[Action]
    ) -> Failure | Reaching | None:
        """Run a candidate; returns its failure if that has the wanted identity."""
        earlier = _earlier_of(wanted)
        self._steps_left -= len(actions) + (2 * START_STEPS if earlier else self._start_steps)
        self._steps_left -= sum(1 + len(each.actions) for each in earlier)
        again = run_again(self._target, wanted, configuration, actions)
        if again is not None and _is_hang(again):
            self._steps_left -= HANG_STEPS
        return again if again is not None and again.identity == wanted.identity else None

    def _accept_named(self, named: Sequence[Named]) -> bool:
        return self._accept(self.failure.configuration, number_slots(self._contract, named))

    def _accept_instead(self, start: int, size: int, *instead: Named) -> bool:
        """Run a candidate with other actions in place of `size` actions."""
        named = self._named
        return self._accept_named([*named[:start], *instead, *named[start + size :]])

    def _remove_actions(self) -> None:
        """Remove runs of actions, long ones first, from the end to the start."""
        for size in _halves(len(self.failure.actions)):
            start = len(self.failure.actions) - size
            while start >= 0:
                self._accept_instead(start, size)
                start = min(start - max(size // 2, 1), len(self.failure.actions) - size)

    def _keep_the_end(self) -> None:
        """Keep the last actions only, with other seeds or a shorter period.

        Each action that is removed shifts all later samples, so removing one by one may not help.
        """
        for length in TAILS:
            if length >= len(self.failure.actions):
                return
            tail = tail_of(self._named, length)
            if self._accept_with_a_seed(tail) or self._accept_with_a_period(tail):
                return

    def _remove_with_another_seed(self) -> None:
        """Remove single actions of a short trace, each with other seeds of random distances."""
        position = len(self.failure.actions) - 2
        while 0 <= position < TAILS[-1]:
            self._accept_with_a_seed(without(self._named, {position}))
            position -= 1

    def _at_each_action(self, helps: Callable[[int], bool]) -> None:
        """Try something at each position, and again there as long as it helps."""
        position = 0
        while position < len(self.failure.actions):
            if not helps(position):
                position += 1

    def _remove_with_a_collection(self, position: int) -> bool:
        """Remove an action together with one that collects.

        With one object less to mark, marking takes one step less to reach the one that matters.
        """
        named = self._named
        return any(
            self._accept_named(without(named, {position, place}))
            for place, each in enumerate(named[:-1])
            if each.action.collects != "never"
        )

    def _accept_with_a_seed(self, named: Sequence[Named]) -> bool:
        """Run a candidate with one seed after another; False if there is no seed."""
        actions = number_slots(self._contract, named)
        starts = self._start_steps or self._earlier
        # With what it uses, the end of a trace may be all of it.
        tried = SEEDS_TRIED if len(actions) < len(self.failure.actions) else SEEDS_TRIED_AGAIN
        tried = SEEDS_TRIED_AFRESH if starts else tried
        for setting in self._contract.settings:
            if setting.name == SEED:
                least = setting.range.minimum
                return any(
                    self._accept_if_legal(self.failure.configuration | {SEED: seed}, actions)
                    for seed in range(least, least + tried)
                )
        return False

    def _accept_with_a_period(self, named: Sequence[Named]) -> bool:
        """Run a candidate with shorter periods in the last action that enables sampling.

        The period may make actions necessary that cannot be removed one by one: with a shorter one,
        a failure of six actions became one of two.
        """
        actions, rule = number_slots(self._contract, named), self._contract.sampling
        pairs = enumerate(actions)
        enabling = [(place, each) for place, each in pairs if isinstance(each, EnableSampling)]
        # All periods of all switches took a third more candidates, for the same lengths.
        return any(
            self._accept_with({(place, "period_bytes"): period_bytes}, actions)
            for place, action in enabling[-1:]
            for period_bytes in lower_than(action.period_bytes)
            if rule.why_illegal(period_bytes) is None
        )

    def _replace_actions(self) -> None:
        """Replace a run of actions, or a less simple action, by an action without arguments."""
        for size in _halves(len(self.failure.actions)):
            start = 0
            while start + size < len(self.failure.actions):
                first = self._named[start]
                simpler = FILLERS[: _rank(first.action)] if size == 1 else FILLERS
                fillers = (Named(each, {}, first.appends) for each in simpler)
                any(self._accept_instead(start, size, each) for each in fillers)
                start += 1

    def _merge_allocations(self, position: int) -> bool:
        """Replace two allocations in a row by one string that counts the same bytes."""
        layout = self._contract.layout
        pair = self.failure.actions[position : position + 2]
        mergeable = len(pair) > 1 and all(each.allocates and not each.old for each in pair)
        if not mergeable or "string" not in layout.kinds:
            return False
        sizes = [cost_of(layout, action)[0] for action in pair]
        length = sum(sizes) - layout.kinds["string"].fixed_bytes
        merged = attrs.evolve(self._named[position], action=kinds.AllocateString(length), slots={})
        return self._accept_instead(position, 2, merged)

    def _replace_object(self, gone: int) -> bool:
        """Use another object in place of the one in the slot that the action `gone` appends."""
        named = self._named
        if not any(_uses(each, gone) for each in named):
            return False
        kept = [
            each
            for each in named
            if each.appends != gone
            and not (isinstance(each.action, kinds.Free) and _uses(each, gone))
        ]
        for other in range(len(named)):
            slots = [
                {
                    field: (other, 0) if name[0] == gone else name
                    for field, name in each.slots.items()
                }
                for each in kept
            ]
            renamed = [attrs.evolve(each, slots=own) for each, own in zip(kept, slots, strict=True)]
            if other != gone and self._accept_named(renamed):
                return True
        return False

    def _shrink_group(self, position: int) -> bool:
        """Remove a member of a group, or make one simpler."""
        group = self.failure.actions[position]
        if not isinstance(group, kinds.AllocateGroup):
            return False  # To name the slots takes as long as to follow the trace.
        candidates = smaller_groups(self._named, position, group)
        return any(self._accept_named(each) for each in candidates)

    def _simplify_settings(self) -> None:
        """Drop settings that make no difference, and lower the others."""
        self._drop_settings()
        for name, value in self.failure.configuration.copy().items():
            any(self._accept_with({(SETTING, name): lower}) for lower in lower_than(value))

    def _drop_settings(self) -> None:
        for name in tuple(self.failure.configuration):
            rest = {key: value for key, value in self.failure.configuration.items() if key != name}
            self._accept_if_legal(rest, self.failure.actions)

    def _accept_if_legal(self, configuration: dict[str, int], actions: Sequence[Action]) -> bool:
        if problem_of_configuration(configuration, self._contract.settings):
            return False
        return self._accept(configuration, actions)

    def _lower_integers(self) -> None:
        """Lower each integer of each action as far as possible."""
        position = 0
        while position < len(self.failure.actions):
            for field in attrs.fields_dict(type(self.failure.actions[position])):
                while self._lower_field(position, field):
                    pass
            position += 1

    def _lower_field(self, position: int, field: str) -> bool:
        if position >= len(self.failure.actions):
            return False  # The failure is shorter by now.
        for lower in simpler_values(self.failure.actions[position], field):
            before = self._value((position, field))
            if self._accept_with({(position, field): lower}):
                if lower == before - LONG_STEP:
                    self._lower_faster(position, field)
                return True
        return False

    def _lower_faster(self, position: int, field: str) -> None:
        """Lower an integer by longer and longer steps, and then by shorter and shorter ones.

        Half of it is too much. A block of 300,000 bytes took 15,000 candidates by single steps.
        """
        place, step = (position, field), LONG_STEP
        while self._lower_group([place], 2 * step):
            step *= 2
        while step > LONG_STEP:
            self._lower_group([place], step)
            step //= 2

    def _lower_together(self) -> None:
        """Lower two integers, or all, by the same amount, because they may depend on each other."""
        for step in TOGETHER_STEPS:
            places = [place for place in self._places() if self._value(place) > step]
            for group in (places, *combinations(places, 2)):
                while len(group) > 1 and self._lower_group(group, step):
                    pass

    def _places(self) -> list[_Place]:
        """The places of all integers."""
        settings = [(SETTING, name) for name in self.failure.configuration]
        fields = [
            (position, field)
            for position, action in enumerate(self.failure.actions)
            for field in attrs.fields_dict(type(action))
            if field not in SLOT_FIELDS[type(action)] and type(getattr(action, field)) is int
        ]
        return settings + fields

    def _value(self, place: _Place) -> int:
        """The integer at a place; 0 if the failure is shorter by now."""
        position, name = place
        if position == SETTING:
            return self.failure.configuration.get(name, 0)
        if position >= len(self.failure.actions):
            return 0
        return int(getattr(self.failure.actions[position], name, 0) or 0)

    def _lower_group(self, group: Sequence[_Place], step: int) -> bool:
        values = {place: self._value(place) for place in group}
        return min(values.values()) > step and self._accept_with(
            {place: value - step for place, value in values.items()}
        )

    def _accept_with(
        self, values: Mapping[_Place, int | None], actions: Sequence[Action] | None = None
    ) -> bool:
        """Run a candidate with other integers, and perhaps with other actions."""
        configuration = dict(self.failure.configuration)
        actions = list(self.failure.actions if actions is None else actions)
        for (position, name), value in values.items():
            if position == SETTING:
                configuration[name] = cast(int, value)
            else:
                actions[position] = actions[position].changed({name: value})
        return self._accept_if_legal(configuration, actions)


def _uses(named: Named, number: int) -> bool:
    """Whether an action uses a slot that the action of that number has appended."""
    return any(name[0] == number for name in named.slots.values())


def _halves(length: int) -> Iterator[int]:
    while length := length // 2:
        yield length


def _rank(action: Action) -> int:
    """How simple an action is; actions without arguments are the simplest."""
    return FILLERS.index(action) if action in FILLERS else len(FILLERS)


def reduce_failure(
    target: Target, failure: Found, is_over: Callable[[], bool] | None = None
) -> Found:
    """The smallest failure of the same identity that a search finds, by default in two minutes."""
    reducer = Reducer(target, failure)
    reducer.reduce_until(is_over or after(SECONDS_MAX))
    return cast(Found, reducer.failure)
