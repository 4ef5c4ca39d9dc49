"""Failures on disk: saved as they were found, reproduced, reduced, and published.

While a session works, its files have names that no other session uses, so that it only removes its
own. What it reports is published under a final name, which no session removes. Invariant: from the
moment when a failure is seen there is a file that replays it, unless none can be written; then
`unsaved` has the reason. The trace as it was found is removed only when the reduced one is saved
and has failed again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import cast

import attrs

from fuzz.cancellation import Cancelled, after, cancelled_when
from fuzz.failure import BROKE, FIXED, Failure
from fuzz.failures.compare import Before, Pair, run_again
from fuzz.failures.flaky import judged
from fuzz.failures.reduce import SECONDS_MAX, Reducer
from fuzz.failures.trace_files import SUFFIX, shipped_folder, shipped_traces
from fuzz.files import FAILURES_FOLDER
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import NAMES, Action
from fuzz.protocol.observation import MEMORY
from fuzz.protocol.target import Target
from fuzz.protocol.trace import VERSION, Found, Header, Trace
from fuzz.replay import tries_for
from fuzz.targets import NO_OPTIONS, TargetOptions, is_program, make_target, registry
from fuzz.version import HYPOTHESIS, versions_for

COMPLAINT_SUFFIX = ".log"
"""Of the file beside a trace with the standard error of a program that broke."""
RAW = "-raw"
"""Ends the stem of a trace as it was found."""
UNPUBLISHED = re.compile(rf"(.+?)(?:{RAW})?-[0-9a-f]{{8}}\.[0-9a-f]+(?:-\d+)?\{SUFFIX}")
"""The name of a trace with a session's token, and its stem."""
DIRECTION_MAX = 40
"""Characters of a failure's direction in its file's name."""
RERUN_SECONDS_MAX = 180.0
"""The time for a reduced trace to fail again. One answer of a program takes two minutes at most."""


@attrs.frozen
class SavedFailure:
    """A failure, the file with its trace, and how it was reproduced."""

    failure: Failure
    """In a record it has no trace of its own: the file has it."""
    path: Path | None
    """The trace's file, in a record relative to the corpus. None if none could be written."""
    length: int
    """The number of actions of the trace."""
    reduced_from: int
    """The number of actions when the failure was found."""
    chunk: int
    """The chunk in which it was found."""
    reproduced: bool
    """Whether it failed again in a new target."""
    tries: int = 0
    """How many runs in new targets passed, if it did not reproduce; 0 if none was made."""
    needs_earlier: bool = False
    """Whether it reproduced only after the traces that its process had carried out before."""
    fresh_process: bool = False
    """Whether its trace gets a process of its own."""
    reduction_ended: str = ""
    """Why its reduction ended early, if it did."""
    unsaved: str | None = None
    """Why the trace could not be saved. `path` is then the file of the trace as it was found."""
    lost: str | None = None
    """Why the trace, which then has no actions, could not be read again. No record has this."""

    @property
    def is_certain(self) -> bool:
        """Whether the target is certainly broken."""
        return self.reproduced and self.failure.change == BROKE

    @property
    def is_saved(self) -> bool:
        return self.path is not None and self.unsaved is None and self.lost is None

    @property
    def sort_key(self) -> tuple[bool, bool, bool, int, int, str, str]:
        """The order of failures with one identity: the least one is kept.

        It reproduced, without earlier traces, was saved, and was found first; of one chunk it is
        the shortest.
        """
        unsure = not self.reproduced, self.needs_earlier, not self.is_saved
        return *unsure, self.chunk, self.length, str(self.path), self.failure.message

    def without_trace(self, corpus: Path) -> SavedFailure:
        """The failure for a record of that corpus."""
        path = self.path and self.path.relative_to(corpus)
        return attrs.evolve(self, failure=self.failure.without_trace(), path=path, lost=None)

    def read_in(self, corpus: Path) -> SavedFailure:
        """The failure of that corpus's record, with its trace if that can be read."""
        if self.path is None:
            return attrs.evolve(self, lost="it could not be saved")
        return _from_file(attrs.evolve(self, path=corpus / self.path))

    def read(self) -> SavedFailure:
        """The failure with its whole trace, from its file if it has one that can be read."""
        return _from_file(self) if self.is_saved else self

    @property
    def waiting(self) -> SavedFailure:
        """What is held of a failure until it is reduced: not its trace, if the file has it."""
        if not self.is_saved:
            return self
        failure = attrs.evolve(self.failure, configuration={}, actions=(), earlier=())
        return attrs.evolve(self, failure=failure)

    @property
    def shown(self) -> SavedFailure:
        """What is held until the session ends: not its earlier traces, if the file has them."""
        if not self.is_saved:
            return self
        return attrs.evolve(self, failure=attrs.evolve(self.failure, earlier=()))

    def with_trace(self, trace: Trace) -> SavedFailure:
        """The failure of a record, with the trace from its file."""
        header = trace.header
        failure = attrs.evolve(
            self.failure,
            configuration=header.config,
            actions=trace.actions,
            excluded=header.excluded,
            earlier=header.earlier,
        )
        return attrs.evolve(self, failure=failure)


def _from_file(saved: SavedFailure) -> SavedFailure:
    """The failure with the trace that its file has, if that can be read."""
    assert saved.path is not None
    try:
        return saved.with_trace(traces.read(saved.path))
    except BadInputError as problem:
        return attrs.evolve(saved, lost=str(problem))


@attrs.frozen
class Origin:
    """Where failures come from: a target, the engine with its seed, and the corpus for them."""

    folder: Path
    target: str
    engine: str
    seed: int | None
    options: TargetOptions = NO_OPTIONS
    before: Before | None = None
    """The target before a change, if two are compared."""
    factory: Callable[[], Target] | None = None
    """Makes the target, if that is not done by its name."""
    token: str = attrs.Factory(lambda: os.urandom(16).hex())
    """Part of the names of files that are not published yet."""
    hypothesis: str | None = attrs.field()
    """The version of Hypothesis that draws, if the engine is stateful."""

    @hypothesis.default
    def _version_here(self) -> str | None:
        return versions_for(self.engine).get(HYPOTHESIS)

    def make_target(self) -> Target:
        target = self.factory() if self.factory else make_target(self.target, self.options)
        return target if self.before is None else Pair(self.before.make_target(), target)

    @property
    def shares_processes(self) -> bool:
        """Whether traces share a process, and could have one each."""
        targets = {self.target} if self.before is None else {self.target, self.before.target}
        return all(map(is_program, targets)) and self.options.keeps_processes

    def with_fresh_processes(self) -> Origin:
        """The same with a process for each trace."""
        before = self.before
        if before is not None:
            before = attrs.evolve(before, options=attrs.evolve(before.options, fresh_process=True))
        options = attrs.evolve(self.options, fresh_process=True)
        return attrs.evolve(self, options=options, before=before)


# The folder.


def open_folder(folder: Path) -> None:
    """Create the corpus folder if it is missing. Raises BadInputError.

    Git ignores the default folder, so that it is not committed by accident.
    """
    import tempfile

    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        if is_new and folder.name == FAILURES_FOLDER.name:
            (folder / ".gitignore").write_text("*\n")
        tempfile.TemporaryFile(dir=folder).close()  # The folder is writable.
    except OSError as problem:
        raise BadInputError(
            f"{folder}: cannot be the corpus folder: {problem.strerror}; name another with --corpus"
        ) from problem


def findings_like(target: str, failure: Failure) -> dict[str, Trace]:
    """The traces of findings in that target that fail in the same way, by the page of each.

    The oracle reports the same field, the same direction and the same reason, but for numbers, and
    the actions are of the same kinds in the same order. A target's known failures are in a folder
    of the corpus that has its name, and the name of each begins with that of its page. Another
    defect may fail in the same way: only a replay shows whether a target has the finding.
    """
    registered = registry().targets.get(target)
    if registered is None:
        return {}
    stated = _stated(failure.message)
    like = {
        name: known
        for name, known in shipped_traces(registered.variant_of or target).items()
        if known.header.target in (target, registered.variant_of)
        and known.header.found is not None
        and _stated(known.header.found.message) == stated
        and _steps(known.actions) == _steps(failure.actions)
    }
    folder = shipped_folder("docs") / "findings"
    pages = sorted(folder.rglob("*.md")) if like else []
    return {
        str(page.relative_to(folder).with_suffix("")): known
        for page in pages
        for name, known in like.items()
        if name.startswith(page.stem)
    }


NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
COMPARED = re.compile(rf"expected (?P<expected>{NUMBER.pattern}), got (?P<got>{NUMBER.pattern}) ")


def _stated(message: str) -> tuple[bool | None, str]:
    """What an oracle reported, without numbers: whether one was too large, and all other words."""
    compared = COMPARED.search(message)
    too_large = compared and float(compared["got"]) > float(compared["expected"])
    return too_large, NUMBER.sub("N", message)


def _steps(actions: Sequence[Action]) -> list[str]:
    """The kinds of actions in their order; equal ones in a row are one."""
    return [name for name, _ in groupby(NAMES[type(action)] for action in actions)]


# Files.


def trace_of(origin: Origin, saved: SavedFailure, kills: tuple[str, ...] = ()) -> Trace:
    """The trace of a failure, with a header that has all that a replay needs.

    `kills` are the planted bugs that make it fail on their own.
    """
    failure = saved.failure
    reduced_from = saved.reduced_from if saved.reproduced else None
    how = origin.engine, reduced_from, failure.started_with, origin.hypothesis
    header = Header(
        VERSION,
        origin.target,
        failure.configuration,
        seed=origin.seed,
        found=Found(failure.oracle, failure.message, *how),
        kills=kills,
        fresh_process=saved.fresh_process,
        memory_bytes=origin.options.memory_bytes if failure.direction == MEMORY else None,
        excluded=failure.excluded,
        earlier=failure.earlier,
    )
    return Trace(header, failure.actions)


def _bugs_that_cause(failure: Failure, origin: Origin) -> tuple[str, ...]:
    """The bugs planted in the target that make its trace fail on their own."""
    _, *bugs = origin.target.split("+")
    if not bugs:
        return ()
    from fuzz.targets.bugs.known_bugs import KNOWN_BUGS  # They import all of gcmodel.

    known = [KNOWN_BUGS[bug] for bug in bugs if bug in KNOWN_BUGS]
    return tuple(bug.id for bug in known if _run_again(make_target(bug.target), failure))


def stem_of(failure: Failure) -> str:
    """What the names of its traces begin with."""
    # The direction may be what the target reported.
    direction = re.sub(r"[^A-Za-z0-9_]+", "-", failure.direction)[:DIRECTION_MAX]
    return f"{failure.oracle}-{failure.field}-{direction}-{failure.action}"


def unpublished_in(folder: Path) -> dict[Path, str]:
    """The traces that a killed session left, or one that still runs, and the stem of each."""
    matches = {path: UNPUBLISHED.fullmatch(path.name) for path in sorted(folder.glob(f"*{SUFFIX}"))}
    return {path: match[1] for path, match in matches.items() if match}


def save(origin: Origin, saved: SavedFailure) -> SavedFailure:
    """Save the trace of a failure, in place of its trace as this session found it.

    If that is not possible, `path` stays as it is.
    """
    failure = saved.failure
    stem = stem_of(failure)
    if failure.change != BROKE:
        stem = f"{failure.change}/{stem}"
    if not saved.reproduced:
        stem += RAW
    trace = trace_of(origin, saved, _bugs_that_cause(failure, origin))
    path = origin.folder / f"{stem}-{traces.digest_of(trace)}.{origin.token}{SUFFIX}"
    try:
        if failure.change != BROKE:
            path.parent.mkdir(exist_ok=True)
        traces.write_to(trace, path)
        if failure.complaint:
            path.with_suffix(COMPLAINT_SUFFIX).write_text(failure.complaint, encoding="utf-8")
    except OSError as problem:
        return attrs.evolve(saved, unsaved=problem.strerror)
    if saved.path is not None and f".{origin.token}." in saved.path.name:
        remove(saved.path)
    return attrs.evolve(saved, path=path, unsaved=None)


def save_found(origin: Origin, failure: Failure, chunk: int = 0) -> SavedFailure:
    """Save a failure as it was found."""
    found = SavedFailure(
        failure,
        path=None,
        length=len(failure.actions),
        reduced_from=len(failure.actions),
        chunk=chunk,
        reproduced=False,
        fresh_process=origin.options.fresh_process,
    )
    return save(origin, found)


def publish(saved: SavedFailure, folder: Path | None = None) -> SavedFailure:
    """Give the files of a failure their final names without the token, perhaps in another folder.

    An existing file of that name stays as it is.
    """
    if saved.path is None:
        return saved
    try:
        complaint = saved.path.with_suffix(COMPLAINT_SUFFIX)
        if complaint.exists():
            _publish(complaint, folder)
        return attrs.evolve(saved, path=_publish(saved.path, folder))
    except OSError as problem:
        return attrs.evolve(saved, unsaved=problem.strerror)


def _publish(working: Path, folder: Path | None) -> Path:
    final = working.with_suffix("").with_suffix(working.suffix)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / final.name
    try:
        final.hardlink_to(working)  # Unlike a rename, it fails if there is such a file.
    except FileExistsError:
        pass
    except OSError:  # Not every file system has hard links.
        if not final.exists():
            return working.replace(final)
    remove(working)
    return final


def remove(working: Path | None) -> None:
    """Remove an unpublished file, and the complaint beside it."""
    if working is not None:
        with suppress(OSError):
            working.unlink(missing_ok=True)
            working.with_suffix(COMPLAINT_SUFFIX).unlink(missing_ok=True)


# Running a failure again.


def reduce_saved(
    origin: Origin,
    found: SavedFailure,
    is_over: Callable[[], bool] | None = None,
    rerun_seconds: float = RERUN_SECONDS_MAX,
    report: Callable[[int], None] | None = None,
) -> SavedFailure:
    """Run a failure again, reduce it until that is over, and save what failed again.

    All reductions together take two minutes by default.

    If it does not reproduce, it stays as it was found. The result has another identity if that is
    what fails after the earlier traces of its process.
    """
    tries, passed, kept, reduction_ended = 0, 0, None, ""
    is_late = is_over or after(SECONDS_MAX)
    for source, failure in _ways_to_reproduce(origin, found.failure):
        if failure.earlier and kept is not None:
            break
        again, passed = try_again(source, failure, rerun_seconds)
        tries += passed
        if again is None:
            continue
        reducer = Reducer(source.make_target(), again, report=report)
        reducer.reduce_until(is_late)
        reduced, reduction_ended = cast(Failure, reducer.failure), reducer.ended_early
        is_sure = reduced is again or try_again(source, reduced, rerun_seconds)[0] is not None
        kept = (source, reduced) if is_sure else kept or (source, again)
        # If threads race, a reduced trace may rarely fail again.
        if is_sure or tries_for(failure.actions) > 1:
            break
    source, failure = kept or (origin, found.failure)
    reproduced = kept is not None
    if origin.before is not None and failure.change in {BROKE, FIXED}:
        is_over = is_over or after(rerun_seconds)
        verdict = judged(source.make_target, failure, is_over, passed + (not reproduced))
        failure, reproduced = verdict.failure, reproduced or verdict.failed_again
    if not reproduced and failure is found.failure:
        return attrs.evolve(found, tries=tries)
    return save(
        source,
        attrs.evolve(
            found,
            failure=failure,
            length=len(failure.actions),
            reproduced=reproduced,
            tries=0 if reproduced else tries,
            needs_earlier=bool(failure.earlier),
            reduction_ended=reduction_ended,
            fresh_process=source.options.fresh_process,
        ),
    )


def _ways_to_reproduce(origin: Origin, failure: Failure) -> Iterator[tuple[Origin, Failure]]:
    """In a new process; with a process for each run; after the earlier traces of its process."""
    alone = attrs.evolve(failure, earlier=())
    yield origin, alone
    if origin.shares_processes:
        yield origin.with_fresh_processes(), alone
        if failure.earlier:
            yield origin, failure


def try_again(origin: Origin, failure: Failure, seconds: float) -> tuple[Failure | None, int]:
    """Run a failure again in new targets; returns it if it fails, and how many runs passed.

    After earlier traces any failure counts, since a replay of the file fails with it, too.
    """
    tries = 0
    with suppress(Cancelled), cancelled_when(after(seconds)):
        for _ in range(tries_for(failure.actions)):
            again = _run_again(origin.make_target(), failure)
            if again is not None and (failure.earlier or again.identity == failure.identity):
                return again, tries
            tries += 1
    return None, tries


def _run_again(target: Target, failure: Failure) -> Failure | None:
    again = run_again(target, failure, failure.configuration, failure.actions)
    return cast(Failure | None, again)
