"""Sessions on two Dask workers, with their corpus in S3, under faults.

    python benchmarks/faults.py --seconds 3600 --faults 60

It runs one session after another on a target that takes a millisecond for each action. Faults
of KINDS come at random times. What ends is restarted, and a session resumes. Then each session must
have left what the same session leaves on one worker of this machine, without faults: the same
traces, and the same record except `timing`. The store is moto, behind a proxy that can be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from urllib.request import Request, urlopen

import attrs
import psutil
from typing_extensions import override

from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.sessions import record
from fuzz.sessions.record import SessionRecord
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.targets.references.planting import parts_with

TARGET, BUG = "faults:PacedTarget", "one-sample-per-object"
PACE = "GCFUZZ_FAULTS_PACE_SECONDS"
BUCKET = "night"
POLL_SECONDS = 0.1
WORKERS = 2
CLEAN, MISMATCH = 0, 1
PAUSE_SECONDS = 2.0, 40.0
"""The shortest and the longest time for which something is stopped or gone."""


class PacedTarget(ReferenceTarget):
    """A reference with a planted bug, which takes some time for each action."""

    def __init__(self) -> None:
        parts = attrs.evolve(self.PARTS, **parts_with("reference", [BUG]))
        super().__init__(TARGET, parts, ())
        self._pace_seconds = float(os.environ.get(PACE, "0"))

    @override
    def perform(self, action: Action) -> Observation:
        time.sleep(self._pace_seconds)
        return super().perform(action)


@attrs.frozen
class Result:
    """What a session left, and which files are missing or different."""

    actions: int
    failures: int
    missing: list[str]


class Machines:
    """The processes of a cluster, a store, and a session. What ends is restarted."""

    def __init__(
        self, folder: Path, actions: int, rng: random.Random, done: SimpleQueue[int | None]
    ) -> None:
        """`done` gets the seeds of sessions that are done."""
        self._folder, self._actions, self._rng, self._done = folder, actions, rng, done
        self._scheduler_port, self._store_port, self._proxy_port = map(_free_port, range(3))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._absent_until: dict[str, float] = {}
        self.seed = 1
        self._resumes = False
        self._terminated_at = 0.0
        self.stop_seconds: list[float] = []
        """How long each session took to end after SIGTERM."""
        self.exits = Counter[int]()
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "faults")
        self._environment = {
            **os.environ,
            **keys,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._proxy_port}",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            "TMPDIR": str(folder),
            PACE: "0.001",
        }
        self._start("store", "-m", "moto.server", "-p", str(self._store_port))
        store = f"http://127.0.0.1:{self._store_port}"
        _until(lambda: _answers(Request(f"{store}/{BUCKET}", method="PUT")))  # noqa: S310

    def _start(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, *arguments], env=self._environment, stdout=log, stderr=log
            )

    def _start_if_ended(self, name: str, *arguments: str) -> None:
        process = self._running.get(name)
        is_absent = time.monotonic() < self._absent_until.get(name, 0.0)
        if not is_absent and (process is None or process.poll() is not None):
            self._start(name, *arguments)

    def tend(self) -> None:
        """Restart what ended, and do what is due."""
        scheduler = f"tcp://127.0.0.1:{self._scheduler_port}"
        port = "--port", str(self._scheduler_port), "--no-dashboard"
        self._start_if_ended(
            "proxy", __file__, "--forward", f"{self._proxy_port}:{self._store_port}"
        )
        self._start_if_ended("scheduler", "-m", "distributed.cli.dask_scheduler", *port)
        for number in range(WORKERS):
            once = "--nthreads", "1", "--no-nanny", "--no-dashboard"
            worker = "-m", "distributed.cli.dask_worker", scheduler, *once
            self._start_if_ended(f"worker-{number}", *worker)
        session = self._running.get("session")
        if session is not None and session.poll() is not None:
            del self._running["session"]
            self._take_end(session.returncode)
        where = "--corpus", f"s3://{BUCKET}/{self.seed}", "--cluster", scheduler
        resume = ["--resume"] if self._resumes else []
        self._start_if_ended("session", "-m", "fuzz", *self.plan(self.seed), *where, *resume)
        for due in [each for each in self._later if each[0] <= time.monotonic()]:
            self._later.remove(due)
            due[1]()

    def plan(self, seed: int) -> tuple[str, ...]:
        """The options of the session with that seed."""
        return "run", "--target", TARGET, "--seed", str(seed), "--actions", str(self._actions)

    def _take_end(self, code: int) -> None:
        self.exits[code] += 1
        if self._terminated_at:
            self.stop_seconds.append(time.monotonic() - self._terminated_at)
            self._terminated_at = 0.0
        log = (self._folder / "session.log").read_text(encoding="utf-8").splitlines()
        self._resumes = not (log and "no such session to resume" in log[-1])
        if code in {CLEAN, MISMATCH}:
            self._done.put(self.seed)
            self.seed, self._resumes = self.seed + 1, False
        self._absent_until["session"] = time.monotonic() + 1.0

    # Faults.

    def strike(self, kind: str) -> bool:
        """Do what a kind of fault is. Returns whether there was something to do it to."""
        name, _, what = kind.partition(": ")
        pause_seconds = self._rng.uniform(*PAUSE_SECONDS)
        if name == "worker":
            name = f"worker-{self._rng.randrange(WORKERS)}"
        process = self._running.get(name)
        if process is None or process.poll() is not None:
            return False
        match what:
            case "killed":
                process.kill()
            case "gone for a while":
                process.kill()
                self._absent_until[name] = time.monotonic() + pause_seconds
            case "stopped for a while":
                process.send_signal(signal.SIGSTOP)
                self._later.append(
                    (time.monotonic() + pause_seconds, lambda: process.send_signal(signal.SIGCONT))
                )
            case "its task's process killed":
                with suppress(psutil.Error):
                    for child in psutil.Process(process.pid).children():
                        child.kill()
            case "terminated":
                self._terminated_at = self._terminated_at or time.monotonic()
                process.terminate()
        return True

    def finish(self) -> None:
        """Let the last session end, without faults."""
        last = self.seed
        while self.seed == last:
            self.tend()
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    # What was left.

    def left(self, seed: int) -> dict[str, object]:
        """What the session with that seed left in the store."""
        folder = self._folder / f"fetched-{seed}"
        fetch = (
            "import fsspec, sys; fsspec.filesystem('s3').get(*sys.argv[1:], recursive=True)",
            f"{BUCKET}/{seed}",
            str(folder),
        )
        while run_python("-c", *fetch, env=self._environment):
            time.sleep(1.0)
        return left_in(folder)

    def left_alone(self, seed: int) -> dict[str, object]:
        """What the same session leaves here."""
        folder = self._folder / f"alone-{seed}"
        command = "-m", "fuzz", *self.plan(seed), "--corpus", str(folder)
        run_python(*command, env={**self._environment, PACE: "0"})
        return left_in(folder)


KINDS = (
    *("worker: killed", "worker: stopped for a while", "worker: its task's process killed"),
    *("scheduler: killed", "scheduler: gone for a while", "scheduler: stopped for a while"),
    *("store: stopped for a while", "proxy: gone for a while", "proxy: killed"),
    *("session: terminated", "session: killed"),
)


def left_in(folder: Path) -> dict[str, object]:
    """The traces of a corpus, and its record without `timing`."""
    left: dict[str, object] = {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}
    for path in folder.glob("sessions/*.json"):
        left[path.name] = attrs.evolve(record.read(path), timing=())
    return left


def run_python(*arguments: str, env: dict[str, str]) -> int:
    """The exit code of a Python."""
    command = [sys.executable, *arguments]
    return subprocess.run(  # noqa: S603 - this program itself
        command, env=env, check=False, stdout=subprocess.DEVNULL
    ).returncode


def _free_port(_: int) -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _answers(request: Request) -> bool:
    with suppress(OSError):
        urlopen(request).close()  # noqa: S310 - this machine's store
        return True
    return False


def _until(is_there: Callable[[], bool]) -> None:
    while not is_there():
        time.sleep(POLL_SECONDS)


async def forward(here: int, there: int) -> None:
    """Forward connections from a port to another."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", there)
        await asyncio.gather(copy(reader, its_writer), copy(its_reader, writer))

    server = await asyncio.start_server(connect, "127.0.0.1", here)
    await server.serve_forever()


def compare(machines: Machines, seeds: SimpleQueue[int | None], results: list[Result]) -> None:
    """Compare what sessions left, each after its end."""
    while (seed := seeds.get()) is not None:
        left, alone = machines.left(seed), machines.left_alone(seed)
        missing = [name for name in {*left, *alone} if left.get(name) != alone.get(name)]
        totals = [
            (each.totals.actions, len(each.failures))
            for each in left.values()
            if isinstance(each, SessionRecord)
        ]
        results.append(Result(*(totals or [(0, 0)])[0], missing))


def run(seconds: float, faults: int, actions: int, folder: Path) -> bool:
    """Run the sessions, and print what they left. Returns whether nothing is missing."""
    rng = random.Random(f"{faults}")  # noqa: S311 - reproducible, not secret
    struck, results, seeds = Counter[str](), list[Result](), SimpleQueue[int | None]()
    machines = Machines(folder, actions, rng, seeds)
    comparing = threading.Thread(target=compare, args=(machines, seeds, results), daemon=True)
    comparing.start()
    began = time.monotonic()
    times = sorted(rng.uniform(0, seconds) for _ in range(faults))
    try:
        while times or time.monotonic() < began + seconds:
            machines.tend()
            if times and times[0] < time.monotonic() - began:
                kind = rng.choice(KINDS)
                if machines.strike(kind):
                    struck[kind] += 1
                    print(f"{time.monotonic() - began:7.1f} s  {kind}", flush=True)
                    times.pop(0)
            time.sleep(POLL_SECONDS)
        machines.finish()
        took_seconds = time.monotonic() - began
        seeds.put(None)
        comparing.join()
    finally:
        machines.end()
    for kind, count in sorted(struck.items()):
        print(f"{count:4}  {kind}")
    print(
        f"{struck.total()} faults in {took_seconds:.0f} s; {len(results)} sessions, "
        f"{sum(each.actions for each in results):,} actions, "
        f"{sum(each.failures for each in results)} failures"
    )
    print(f"exit codes {dict(machines.exits)}")
    print(f"from SIGTERM to the end: {[round(each, 1) for each in machines.stop_seconds]} s")
    missing = [name for each in results for name in each.missing]
    print(f"missing or different: {', '.join(missing) or 'nothing'}")
    return not missing


def main() -> None:
    """Exit with 1 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--actions", type=int, default=200_000, help="of each session")
    parser.add_argument("--forward", metavar="PORT:PORT", help="be the proxy")
    given = parser.parse_args()
    if given.forward is not None:
        asyncio.run(forward(*map(int, given.forward.split(":"))))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not run(given.seconds, given.faults, given.actions, Path(folder)))


if __name__ == "__main__":
    main()
