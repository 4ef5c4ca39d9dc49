"""Fuzzes the inputs of gcfuzz's own commands.

    python benchmarks/hostile_inputs.py --inputs 20000

It mutates the files and answers of KINDS, and runs a command on each. The command must exit with a
code from 0 to 3, print no control characters, and explain in one line what is wrong with its input.
Before that line there may be a line for each mistake of a contract. It has one minute of processor
time and 1.5 GB of address space. A number always makes the same input: `--first N --inputs 1 --keep
FOLDER` keeps its files.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import math
import multiprocessing
import os
import platform
import random
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import attrs
from hostile_mutations import mutated

from fuzz.engines.random import RandomEngine
from fuzz.failures.trace_files import shipped_traces
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.lines import to_line, unstructured
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.replay import record
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES
from fuzz.terminal.commands.cli import run_command_line
from fuzz.version import __version__

SEED = 14
BATCH = 5000
"""This number of inputs share a process, since the material costs as much as many inputs."""
ADDRESS_SPACE_BYTES = 3 * 2**29
PROCESSOR_SECONDS = 60.0
"""An input that takes longer counts as a hang, even on a slow machine."""
OVERRUN = -1
"""The exit code of an input that takes too long."""
SILENCE_SECONDS = 600.0
"""An input that takes longer hangs, although it takes no time of the processor."""
CODES = range(4)
GONE_SHARE = 0.1
"""The share of the files of a folder that are removed in place of a mutation."""
UNEXPECTED = "gcfuzz: this is a bug of gcfuzz itself; please report it"
DRAWN, DRAWN_ACTIONS = 3, 40
"""For each reference: this number of traces, with at most this number of actions each."""
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "hostile-inputs.md"
OF_TRACES = (
    *["replay {}", "explain {}", "explain {} --html out.html", "record {} -o out.jsonl"] * 2,
    *("profile {} -o out.collapsed", "profile {} --period 64 -o out.json", "reduce {}"),
    *("replay {} --target reference+one-sample-per-object", "replay {} --target reference"),
)
OF_PROFILES = ("profile {} -o out.collapsed", "profile {} -o out.json", "profile {} -o out.heap")
OF_ANSWERS = ("replay", "replay", "explain", "record -o out.jsonl", "explain --html out.html")
OF_SESSIONS = ("report {} -o page.html", "merge {} -o out", "merge {} part-1 -o out")
OF_PARTS = ("merge part-1 {} -o out", "merge {} part-1 -o out", "report {} -o page.html")
OF_HISTORIES = (
    "report whole -o page.html --markdown page.md --junit page.xml --history {}",
    "triage {}",
    "triage {} 00000000 --flaky 3/20",
    "merge whole {} -o out",
)
SESSION = "run --target reference+sample-on-equality --actions 1000 --seed 5"
OF_FOLDERS = {
    "runs": (
        *["merge {} -o out", "merge {} part-1 -o out", "report {} -o page.html"] * 8,
        *["report {} whole -o page.html --junit page.xml", "merge whole {} -o out"] * 8,
        f"{SESSION} --resume --corpus {{}}",  # A session costs as much as fifty merges.
    ),
    "merged": (
        *("merge {} -o out", "merge part-1 {} -o out", "replay {}", "triage {}"),
        "report {} -o page.html --markdown page.md --junit page.xml --fail-on open",
        "report {} part-2 -o page.html",
    ),
}
"""Commands on corpora: the records of several runs of one plan, and what a merge made."""
KINDS_OF_TRACES = "traces", "traces", "recordings", "profiles", "contracts", "answers"
KINDS_OF_RECORDS = "sessions", "parts", "histories", "runs", "merged"
KINDS = {
    "traces": KINDS_OF_TRACES,
    "records": KINDS_OF_RECORDS,
    "all": KINDS_OF_TRACES + KINDS_OF_RECORDS,
}
"""The kinds of inputs, by what they belong to."""
OF_CONTRACTS = (*OF_ANSWERS, "probes --actions 20")


class OverrunError(BaseException):
    """An input has taken too much processor time."""


@attrs.frozen
class Material:
    """The files that are mutated, each as lines."""

    traces: list[list[str]]
    recordings: list[list[str]]
    profiles: list[list[str]]
    answers: list[tuple[list[str], list[str]]]
    """A trace for a program, and the answers of the program."""
    sessions: list[list[str]]
    """A session's record, in one line."""
    parts: list[list[str]]
    """The record of a part of that session, in one line."""
    histories: list[list[str]]
    """The history of that session's failures, as lines."""


@attrs.frozen
class Ended:
    """A command's exit code, standard output and standard error."""

    command: str
    code: int
    printed: str
    complaint: str

    @property
    def problem(self) -> str | None:
        """What is wrong, in one line; None if the command is right."""
        errors = self.complaint.splitlines()
        if self.code not in CODES:
            return ([line for line in errors if line != UNEXPECTED] or [f"exit code {self.code}"])[
                -1
            ]
        for line in (self.printed + self.complaint).split("\n"):
            if not line.isprintable():
                return f"printed {line!a}"
        mistakes = [line for line in errors if line.startswith("contract: ")]
        if mistakes and f" (the first of {len(mistakes)} mistakes)" in errors[-1]:
            errors = errors[len(mistakes) :]
        return next((f"printed {line}" for line in errors if not line.startswith("gcfuzz: ")), None)


@attrs.frozen
class Outcome:
    """The results of inputs."""

    codes: Counter[tuple[str, int]]
    """How often each kind of input led to each exit code."""
    problems: list[tuple[int, Ended]]
    memory_kilobytes: int


class Spy:
    """A target that keeps its configuration and its actions."""

    name = "spy"

    def __init__(self, target: Target) -> None:
        self._target = target
        self.configuration: dict[str, int] = {}
        self.actions: list[Action] = []

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.configuration, self.actions = dict(configuration), []
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self.actions.append(action)
        return self._target.perform(action)


def material(of: str) -> Material:
    """The corpus, drawn traces, and the other files that commands make of them."""
    made = Material([], [], [], [], *(session_files() if of != "traces" else ([], [], [])))
    if of == "records":
        return made
    for trace in [*shipped_traces().values(), *drawn_traces()]:
        made.traces.append(traces.dumps(trace).splitlines())
        recording, _ = record(make_target(trace.header.target), trace, "material")
        made.recordings.append(traces.dumps(recording).splitlines())
        header = attrs.evolve(trace.header, target="process", found=None, kills=())
        alone = traces.dumps(attrs.evolve(trace, header=header)).splitlines()
        made.answers.append((alone, _answers(recording)))
    for lines in made.traces:
        Path("trace.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if run("profile trace.jsonl --period 64 -o profile.jsonl").code == 0:
            made.profiles.append(Path("profile.jsonl").read_text(encoding="utf-8").splitlines())
    return made


def session_files() -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """The records of a session and of one of its parts, and their history.

    There are folders, too: `whole` is merged, `merged` has a history as well, and `runs` has the
    records of two builds.
    """
    for part in (1, 2):
        run(f"{SESSION} --part {part}/2 --corpus part-{part}")
    run("merge part-1 part-2 -o whole")
    run(f"{SESSION} --corpus runs")
    shutil.copytree("whole", "merged")
    history = Path("merged", "failures.history")
    run("report merged -o night.html")
    # A report that fails leaves none. The inputs show why it fails.
    lines = history.read_text(encoding="utf-8").splitlines() if history.exists() else [""]
    known = [each["failure"] for each in map(json.loads, filter(None, lines)) if "state" in each]
    known_as = "--mute-until 2999-01-01 --because x", "--flaky 3/20"
    for each, what in zip(known, known_as, strict=False):
        run(f"triage merged {each} {what}")
    run("report merged part-2 -o night.html")
    for folder in ("merged", "runs"):
        for path in Path(folder).glob("sessions/*.json"):
            path.write_text(_compact(path) + "\n", encoding="utf-8")
    for path in [*Path("runs").glob("sessions/*.json")]:
        of_other_build = path.read_text(encoding="utf-8").replace(f'"{__version__}"', '"0.0.1"')
        path.with_suffix(".2.json").write_text(of_other_build, encoding="utf-8")
    if history.exists():
        lines = history.read_text(encoding="utf-8").splitlines()
    return _in_one_line("whole"), _in_one_line("part-2"), [lines]


def _in_one_line(folder: str) -> list[list[str]]:
    return [[_compact(path)] for path in Path(folder, "sessions").iterdir()]


def _compact(path: Path) -> str:
    return json.dumps(json.loads(path.read_text(encoding="utf-8")))


def drawn_traces() -> Iterator[traces.Trace]:
    """Traces that the random engine draws, longer than those of the corpus."""
    for name in REFERENCES:
        target = Spy(make_target(name))
        engine = RandomEngine(target, "material")
        for number in range(1, 2 * DRAWN, 2):  # A trace with an even number may run twice.
            engine.run_slice(number, DRAWN_ACTIONS, ProbeCounter())
            header = traces.Header(traces.VERSION, name, target.configuration)
            yield traces.Trace(header, tuple(target.actions))


def _answers(recording: traces.Trace) -> list[str]:
    """The answers of a program that repeats the recording, to the header at the end too."""
    contract = to_line({"contract": unstructured(recording.header.contract)})
    observations = recording.recorded or ()
    return [contract, *(to_line(unstructured(each)) for each in observations), contract]


def run_input(made: Material, number: int, of: str) -> tuple[str, Ended]:
    """Make an input and run a command on it; returns the kind of input and the result."""
    rng = random.Random(f"{SEED}/{number}")  # noqa: S311 - reproducible, not secret
    kind = rng.choice(KINDS[of])
    if kind in {"contracts", "answers"}:
        trace, answers = rng.choice(made.answers)
        contract, rest = answers[:1], answers[1:]
        content = (
            mutated(contract, rng) + "".join(f"{line}\n" for line in rest).encode()
            if kind == "contracts"
            else f"{contract[0]}\n".encode() + mutated(rest, rng)
        )
        Path("input").write_bytes(content)
        Path("trace.jsonl").write_text("\n".join(trace) + "\n", encoding="utf-8")
        command = rng.choice(OF_CONTRACTS if kind == "contracts" else OF_ANSWERS)
        name, _, options = command.partition(" ")
        path = "" if name == "probes" else "trace.jsonl"
        command = f"{name} {path} {options} --command 'cat input'"
    elif kind in {"sessions", "parts"}:
        command = _of_record(made, kind, rng)
    elif kind in OF_FOLDERS:
        command = _of_folder(kind, rng)
    elif kind == "histories":
        folder = Path("kept")
        for each in (folder, Path("out")):
            shutil.rmtree(each, ignore_errors=True)
        folder.mkdir()
        history = folder / "failures.history"
        history.write_bytes(mutated(rng.choice(made.histories), rng))
        command = rng.choice(OF_HISTORIES)
        command = command.format(folder if command.startswith("merge") else history)
    else:
        Path("input.jsonl").write_bytes(mutated(rng.choice(getattr(made, kind)), rng))
        commands = OF_PROFILES if kind == "profiles" else OF_TRACES
        command = rng.choice(commands).format("input.jsonl")
    return kind, run(command)


def _of_record(made: Material, kind: str, rng: random.Random) -> str:
    """Make a folder with a mutated record; returns a command on it."""
    folder = Path(f"mutated-{kind}")
    shutil.rmtree("out", ignore_errors=True)
    if not folder.exists():
        shutil.copytree("whole" if kind == "sessions" else "part-2", folder)
    (folder / "failures.history").unlink(missing_ok=True)
    for each in Path(folder, "sessions").iterdir():
        each.write_bytes(mutated(rng.choice(getattr(made, kind)), rng))
    return rng.choice(OF_SESSIONS if kind == "sessions" else OF_PARTS).format(folder)


def _of_folder(kind: str, rng: random.Random) -> str:
    """Copy a corpus with mutated files, or without some; returns a command on it."""
    folder = Path(f"mutated-{kind}")
    for each in (folder, Path("out")):
        shutil.rmtree(each, ignore_errors=True)
    shutil.copytree(kind, folder)
    suffix = rng.choice((".json", ".json", ".history", ".jsonl"))
    files = sorted(folder.rglob(f"*{suffix}")) or sorted(folder.rglob("*.json"))
    for path in rng.sample(files, min(len(files), rng.choice((1, 1, 2)))):
        if rng.random() < GONE_SHARE:
            path.unlink()
        else:
            lines = path.read_text(encoding="utf-8").splitlines()
            path.write_bytes(mutated(lines, rng))
    return rng.choice(OF_FOLDERS[kind]).format(folder)


def run(command: str) -> Ended:
    """Run a command in this process."""
    printed, complaint = io.StringIO(), io.StringIO()
    code = OVERRUN
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaint):
        signal.setitimer(signal.ITIMER_VIRTUAL, PROCESSOR_SECONDS)
        with contextlib.suppress(OverrunError):
            code = run_command_line(shlex.split(command))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return Ended(command, code, printed.getvalue(), complaint.getvalue())


def run_batch(of: str, numbers: Sequence[int], folder: Path | None = None) -> Outcome:
    """Run inputs in this process, with limited memory."""
    outcome = Outcome(Counter(), [], 0)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    signal.signal(signal.SIGVTALRM, _overrun)
    with _working_in(folder):
        made = material(of)
        for number in numbers:
            faulthandler.dump_traceback_later(SILENCE_SECONDS, exit=True)
            kind, ended = run_input(made, number, of)
            outcome.codes[kind, ended.code] += 1
            if ended.problem is not None:
                outcome.problems.append((number, ended))
    faulthandler.cancel_dump_traceback_later()
    memory_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return attrs.evolve(outcome, memory_kilobytes=memory_kilobytes)


def _overrun(number: int, frame: object) -> None:
    raise OverrunError


@contextlib.contextmanager
def _working_in(folder: Path | None) -> Iterator[None]:
    """Work in `folder`, or in a temporary one."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(folder or temporary):
        yield


def run_all(of: str, first: int, inputs: int, workers: int, seconds: float) -> Outcome:
    """Run inputs in batches, each in a process of its own. No batch begins after these seconds."""
    began = time.monotonic()
    numbers = range(first, first + inputs)
    batches = [numbers[start : start + BATCH] for start in range(0, inputs, BATCH)]
    total = Outcome(Counter(), [], 0)
    context = multiprocessing.get_context("spawn")
    for start in range(0, len(batches), workers):
        if time.monotonic() - began > seconds:
            break
        # Executors that replace their processes can wait for each other forever.
        with ProcessPoolExecutor(workers, context) as executor:
            for outcome in executor.map(partial(run_batch, of), batches[start : start + workers]):
                total.codes.update(outcome.codes)
                total.problems.extend(outcome.problems)
                memory_kilobytes = max(total.memory_kilobytes, outcome.memory_kilobytes)
                total = attrs.evolve(total, memory_kilobytes=memory_kilobytes)
    return total


def described(outcome: Outcome, seconds: float) -> str:
    """The table of exit codes, and a line with the totals."""
    kinds = sorted({kind for kind, _ in outcome.codes})
    codes = sorted({code for _, code in outcome.codes})
    rows = [["mutated", *(f"exit {code}" for code in codes)]]
    rows += [[kind, *(f"{outcome.codes[kind, code]:,}" for code in codes)] for kind in kinds]
    lines = ["".join(f"{cell:>12}" for cell in row) for row in rows]
    total, problems = outcome.codes.total(), len(outcome.problems)
    lines.append(
        f"{total:,} inputs in {seconds:.0f} s, at most {outcome.memory_kilobytes / 1024:,.0f} MB "
        f"in a process: {problems:,} problems"
    )
    return "\n".join(lines)


def page(figures: str) -> str:
    """The page docs/evidence/hostile-inputs.md."""
    today = datetime.now(UTC).date()
    version = platform.python_version()
    command = shlex.join(["python", "benchmarks/hostile_inputs.py", *sys.argv[1:]])
    return f"""# Hostile inputs

{today}, CPython {version}, {os.cpu_count()} cores. `{command}`
mutates files and answers, and runs a command on each: replay, explain, record, reduce, profile,
probes, merge, report, triage or run --resume. `histories` are of several nights, `runs` are corpora
with the records of two builds, and `merged` are corpora that a merge made, with their traces and
history. Each of these is a problem:

- an exit code other than 0 (clean), 1 (a mismatch), 2 (bad input) and 3 (inconclusive),
- an error message of several lines, except the list of a contract's mistakes,
- a control character in the output,
- more than a minute of processor time, or {ADDRESS_SPACE_BYTES / 2**30:.1f} GB of address space.

```text
{figures}
```
"""


def main() -> None:
    """Run the inputs and print the results. Exits with 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--of", choices=KINDS, default="traces", help="what is mutated")
    parser.add_argument("--inputs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="when the last batch begins"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="keep the files of the last input in this folder")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name} with the figures")
    given = parser.parse_args()
    began = time.monotonic()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        numbers = range(given.first, given.first + given.inputs)
        outcome = run_batch(given.of, numbers, given.keep)
    else:
        outcome = run_all(given.of, given.first, given.inputs, given.workers, given.seconds)
    figures = described(outcome, time.monotonic() - began)
    print(figures)
    if given.page:
        PAGE.write_text(page(figures), encoding="utf-8")
    times = Counter(ended.problem for _, ended in outcome.problems)
    first = {ended.problem: (number, ended) for number, ended in reversed(outcome.problems)}
    for problem, (number, ended) in first.items():
        print(f"\n{times[problem]} times, first input {number}, {ended.command}: {problem}")
        print(ended.complaint)
    sys.exit(bool(outcome.problems))


if __name__ == "__main__":
    main()
