"""Finds on disk: saved as they were found, reduced, run again, and kept.

While a session works, its files have names that no other session gives, so that whatever it takes
back is its own; what it reports is published under its final name, which nobody ever deletes.
Invariant: from the moment a failure is seen there is a file that replays it, unless none can be
written; then the find says so. The raw trace is removed only once the reduced one is there and has
failed again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs

from fuzz.cancellation import Cancelled, after, cancelled_when
from fuzz.files import FAILURES_FOLDER
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.observation import MEMORY
from fuzz.protocol.target import Target
from fuzz.protocol.trace import VERSION, Found, Header, Trace
from fuzz.run import BROKE, Failure, tries_for
from fuzz.sessions.reduce import reduce_failure
from fuzz.targets import NO_OPTIONS, TargetOptions, is_program, make_target, registry
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

PACKAGE = Path(__file__).parents[1]
SUFFIX = ".jsonl"
COMPLAINT_SUFFIX = ".log"
"""Of what a program that broke wrote on standard error, in a file beside the trace."""
PARTIAL = ".partial"
"""Stands in the name of a file that is being written, or was when its writer was killed."""
RAW = "-raw"
"""Ends the stem of what is as it was found."""
DIRECTION_MAX = 40
"""So many characters of a failure's direction stand in its file's name."""

TOKEN_BYTES = 16
RERUN_SECONDS_MAX = 180.0
"""What was reduced may take so long to fail once more; a program's one answer takes two minutes at
most."""


@attrs.frozen
class Find:
    """A failure, and the file that replays it."""

    failure: Failure
    trace: Trace
    path: Path | None
    """None if no file could be written."""
    actions_found: int
    reproduced: bool
    """Whether it failed again in a new target."""
    tries: int = 0
    """How many runs in new targets passed, if it did not reproduce; 0 if it was not tried."""
    unsaved: str | None = None
    """Why the trace could not be saved; `path` is then at best that of the raw one."""
    chunk: int = 0
    """In which it was found."""

    @property
    def is_sure(self) -> bool:
        """Whether the target is broken for sure."""
        return self.reproduced and self.failure.change == BROKE

    @property
    def is_saved(self) -> bool:
        """Whether its trace has the file that it is meant to have."""
        return self.path is not None and self.unsaved is None

    @property
    def needs_earlier(self) -> bool:
        """Whether it reproduced only after earlier traces of the same process."""
        return self.reproduced and bool(self.trace.header.earlier)

    @property
    def sort_key(self) -> tuple[bool, bool, bool, int, int, str, str]:
        """Of several finds of one identity the least is the one to keep.

        It reproduced, without earlier traces, was saved, and no chunk before had one; of one chunk
        it is the shortest.
        """
        return (
            not self.reproduced,
            self.needs_earlier,
            self.unsaved is not None,
            self.chunk,
            len(self.failure.actions),
            traces.digest_of(self.trace),
            traces.dumps(self.trace),
        )


def open_folder(folder: Path) -> None:
    """Make the corpus folder if it is missing. Raises BadInputError if that cannot be.

    Git ignores the default folder: nobody commits it by accident.
    """
    import tempfile

    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        if is_new and folder.name == FAILURES_FOLDER.name:
            (folder / ".gitignore").write_text("*\n")
        tempfile.TemporaryFile(dir=folder).close()  # It can be written.
    except OSError as problem:
        raise BadInputError(
            f"{folder}: cannot be the corpus folder: {problem.strerror}; name another with --corpus"
        ) from problem


def traces_in(place: Path) -> list[Path]:
    """The trace files at `place`, a file or a folder. Raises BadInputError if there are none."""
    if place.is_dir():
        found = sorted(each for each in place.glob(f"*{SUFFIX}") if PARTIAL not in each.suffixes)
        if not found:
            raise BadInputError(f"{place}: the folder has no traces (*{SUFFIX}) to replay")
        return found
    if not place.exists():
        raise BadInputError(f"{place}: there is no such file or folder")
    return [place]


def shipped_traces(of: str = "") -> dict[str, Trace]:
    """The traces that come with the package, by file name: the corpus of this project.

    Or else, in a folder of it, what was found in others' collectors.
    """
    folder = shipped_folder("corpus") / of
    return {path.name: traces.read(path) for path in sorted(folder.glob(f"*{SUFFIX}"))}


def shipped_folder(name: str) -> Path:
    """A folder that comes with the package; in a checkout it is beside the package."""
    folder = PACKAGE / name
    return folder if folder.is_dir() else PACKAGE.parent / name


def pages_like(find: Find) -> list[str]:
    """What it may be: findings in its target by the same oracle, after the same kinds of action.

    A target's known failures are in a folder of the corpus that has its name, and the name of each
    begins with that of its page.
    """
    target, oracle = find.trace.header.target, find.failure.oracle
    registered = registry().targets.get(target)
    if registered is None:
        return []
    like = [
        name
        for name, known in shipped_traces(registered.variant_of or target).items()
        if known.header.target == target
        and known.header.found is not None
        and known.header.found.oracle == oracle
        and {*map(type, known.actions)} == {*map(type, find.failure.actions)}
    ]
    folder = shipped_folder("docs") / "findings"
    pages = sorted(folder.rglob("*.md")) if like else []
    return [
        str(page.relative_to(folder).with_suffix(""))
        for page in pages
        if any(name.startswith(page.stem) for name in like)
    ]


def stem_of(failure: Failure) -> str:
    """What a find's file is called, but for the digest, and the folder of what nothing broke."""
    # The direction may be what the target said.
    safe = re.sub(r"[^A-Za-z0-9_]+", "-", failure.direction)[:DIRECTION_MAX]
    stem = f"{failure.oracle}-{failure.field}-{safe}-{failure.action}"
    return stem if failure.change == BROKE else f"{failure.change}/{stem}"


@attrs.frozen
class Finder:
    """Who finds: the corpus folder, the target, the engine and its seed."""

    folder: Path
    target: str
    engine: str
    seed: int | None
    options: TargetOptions = NO_OPTIONS
    token: str = attrs.Factory(lambda: os.urandom(TOKEN_BYTES).hex())
    """Stands in the names of files that nobody else knows of yet."""

    def make_target(self) -> Target:
        """The target, made anew."""
        return make_target(self.target, self.options)

    @property
    def may_be_alone(self) -> bool:
        """Whether its traces share a process, and need not."""
        return is_program(self.target) and self.options.keeps_processes

    def alone(self) -> Finder:
        """The same, with a process for each trace."""
        return attrs.evolve(self, options=attrs.evolve(self.options, fresh_process=True))

    def save(self, trace: Trace, stem: str, complaint: str = "") -> Path:
        """Save a trace under a name of this finder's own, a complaint beside it. Raises OSError."""
        path = self.folder / f"{stem}-{traces.digest_of(trace)}.{self.token}{SUFFIX}"
        traces.write_to(trace, path)
        if complaint:
            path.with_suffix(COMPLAINT_SUFFIX).write_text(complaint, encoding="utf-8")
        return path


def publish(working: Path, folder: Path | None = None) -> Path:
    """Give a finder's file its final name, without the token, in its own folder or another.

    One that is there stays as it is, and a complaint stands beside it. Raises OSError.
    """
    complaint = working.with_suffix(COMPLAINT_SUFFIX)
    if complaint.exists():
        _publish(complaint, folder)
    return _publish(working, folder)


def _publish(working: Path, folder: Path | None) -> Path:
    final = working.with_suffix("").with_suffix(working.suffix)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / final.name
    try:
        final.hardlink_to(working)  # Unlike a rename, it fails where there is such a file.
    except FileExistsError:
        pass
    except OSError:  # Not every file system has hard links.
        if not final.exists():
            return working.replace(final)
    take_back(working)
    return final


def take_back(working: Path) -> None:
    """Remove a finder's file, of which nobody else knows, and the complaint beside it."""
    with suppress(OSError):
        working.unlink(missing_ok=True)
        working.with_suffix(COMPLAINT_SUFFIX).unlink(missing_ok=True)


@attrs.frozen
class Raw:
    """A failure as it was found, and the file that replays it, or why there is none."""

    failure: Failure
    path: Path | None
    unsaved: str | None = None
    reduced_from: int | None = None
    """How many actions it had before, if it is reduced already."""
    chunk: int = 0
    """In which it was found."""


def save_raw(finder: Finder, failure: Failure) -> Raw:
    """Save a failure as it was found."""
    try:
        path = finder.save(_trace(finder, failure), stem_of(failure) + RAW, failure.complaint)
    except OSError as problem:
        return Raw(failure, None, problem.strerror)
    return Raw(failure, path)


def save_reduced(
    finder: Finder,
    raw: Raw,
    is_over: Callable[[], bool] | None = None,
    rerun_seconds: float = RERUN_SECONDS_MAX,
    tell: Callable[[int], None] | None = None,
) -> Find:
    """Run a failure again, reduce it until that is over, and save what failed again.

    What fails again is kept, also if nothing smaller does.
    """
    length = raw.reduced_from or len(raw.failure.actions)
    tries, kept = 0, None
    for who, failure in _ways_to_reproduce(finder, raw.failure):
        if failure.earlier and kept is not None:
            break
        attempt = try_again(who, failure, rerun_seconds)
        tries += attempt.tries
        again = attempt.failure
        if again is None:
            continue
        reduced = reduce_failure(who.make_target(), again, is_over, tell)
        is_sure = reduced is again or try_again(who, reduced, rerun_seconds).failure is not None
        kept = (who, reduced) if is_sure else kept or (who, again)
        # Where threads run at once, what was reduced may rarely come back.
        if is_sure or tries_for(failure.actions) > 1:
            break
    if kept is None:
        return unreproduced(finder, raw, tries)
    who, reduced = kept
    trace = _trace(who, reduced, length)
    return saved(who, Find(reduced, trace, raw.path, length, reproduced=True, chunk=raw.chunk))


def _ways_to_reproduce(finder: Finder, failure: Failure) -> Iterator[tuple[Finder, Failure]]:
    """In a new process; with a process for each run; after the earlier traces of its process."""
    alone = attrs.evolve(failure, earlier=())
    yield finder, alone
    if finder.may_be_alone:
        yield finder.alone(), alone
        if failure.earlier:
            yield finder, failure


def saved(finder: Finder, find: Find) -> Find:
    """A reduced find with a file of its own, if a disk takes it; else its raw one stays."""
    failure = find.failure
    try:
        path = finder.save(find.trace, stem_of(failure), failure.complaint)
        return attrs.evolve(find, path=path, unsaved=None)
    except OSError as problem:
        return attrs.evolve(find, unsaved=problem.strerror)


def unreproduced(finder: Finder, raw: Raw, tries: int) -> Find:
    """A failure that passed in that many tries."""
    failure = raw.failure
    length = raw.reduced_from or len(failure.actions)
    trace = _trace(finder, failure)
    return Find(
        *(failure, trace, raw.path, length),
        reproduced=False,
        tries=tries,
        unsaved=raw.unsaved,
        chunk=raw.chunk,
    )


@attrs.frozen
class Attempt:
    """What running a failure again came to: the failure, or how many tries passed."""

    failure: Failure | None
    tries: int


def try_again(finder: Finder, failure: Failure, seconds: float) -> Attempt:
    """Run a failure again in a new target, which has nothing left of what was tried before."""
    tries = 0
    with suppress(Cancelled), cancelled_when(after(seconds)):
        for _ in range(tries_for(failure.actions)):
            again = _run_again(finder.make_target(), failure)
            if again is not None and again.identity == failure.identity:
                return Attempt(again, tries)
            tries += 1
    return Attempt(None, tries)


def _trace(finder: Finder, failure: Failure, reduced_from: int | None = None) -> Trace:
    found = Found(
        failure.oracle, failure.message, finder.engine, reduced_from, failure.started_with
    )
    header = Header(
        VERSION,
        finder.target,
        failure.configuration,
        seed=finder.seed,
        found=found,
        kills=_kills(finder.target, failure),
        fresh_process=finder.options.fresh_process,
        memory_bytes=finder.options.memory_bytes if failure.direction == MEMORY else None,
        excluded=failure.excluded,
        earlier=failure.earlier,
    )
    return Trace(header, failure.actions)


def _kills(target: str, failure: Failure) -> tuple[str, ...]:
    """Which of the bugs planted in `target` make the trace fail by themselves."""
    _, *bugs = target.split("+")
    known = [KNOWN_BUGS[bug] for bug in bugs if bug in KNOWN_BUGS]
    return tuple(bug.id for bug in known if _run_again(make_target(bug.target), failure))


def _run_again(target: Target, failure: Failure) -> Failure | None:
    return failure.again(target, failure.configuration, failure.actions)
