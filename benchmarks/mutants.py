"""Measures which mutants of gcmodel the harness finds.

    python benchmarks/mutants.py --count 100 --seed 1

`mutations` makes the mutants. Each has a process of its own, in which the random engine fuzzes the
references that use the mutated module, with one seed, until something fails or the budget is used
up. An action that hangs fails too, and so does an answer that an oracle cannot read. A mutant that
survives is a miss, unless `mutants_equivalent.toml` gives the reason why it breaks no promise. It
is an error if a mutant listed there is found, or does not exist. `--only NAME` runs one mutant.
"""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import shlex
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import attrs
import click
from mutations import install, mutants_of

from fuzz.cancellation import checked_by
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.reached.probes import ProbeCounter
from fuzz.targets import make_target

MODULES = {
    "reference": "collector.arenas collector.barrier collector.heap collector.identities "
    "collector.large_objects collector.major collector.minor collector.pinning collector.weakrefs "
    "memory.layout memory.nursery memory.objects sampling.slow_path",
    "reference-finalizers": "collector.destructors collector.ephemerons collector.finalizers "
    "collector.finalizing",
    "reference-exhaustion": "collector.limited",
    "reference-threads": "collector.mutator_threads",
    "reference-groups": "collector.grouping",
    "reference-unfolded": "collector.divided",
    "reference reference-geometric": "sampling.sample_point",
    "reference reference-dotnet": "sampling.sampler",
    "reference-dotnet reference-dotnet-document": "sampling.contexts",
    "reference-dotnet": "sampling.shipped_contexts",
    "reference-hotspot reference-hotspot-17": "sampling.tlab",
    "reference reference-geometric reference-dotnet reference-dotnet-document reference-hotspot "
    "reference-jemalloc reference-tcmalloc reference-gperftools": "sampling.distances",
    "reference-geometric reference-dotnet reference-dotnet-document reference-hotspot "
    "reference-jemalloc reference-tcmalloc reference-gperftools": "sampling.generators",
    "reference-jemalloc reference-tcmalloc reference-gperftools": "blocks.block_heap "
    "blocks.block_sampler blocks.living_samples blocks.size_classes",
}
"""The modules of gcmodel that a session reaches, by the references that use them."""
TARGETS = {
    module: targets.split() for targets, modules in MODULES.items() for module in modules.split()
}
ACTIONS = 60_000
ENGINE_SEED = "1"
HANG_SECONDS = 2.0
"""An action that takes more processor time than this hangs."""
ADDRESS_SPACE_BYTES = 3 * 2**29
NOTHING, CRASH, ERROR, HANG = "nothing", "a crash", "a named error", "a hang"
EXCEPTION = "an exception elsewhere"
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.toml")
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "mutants.md"


@attrs.frozen
class Outcome:
    """The result for one mutant."""

    mutant: str
    found_by: str
    """The oracle that failed, or one of the constants above."""
    actions: int = 0
    message: str = ""


def fuzz(mutant: str, actions: int) -> Outcome:
    """Fuzz a mutant in this process, which must not have imported gcmodel. "" is no mutant.

    The targets share the budget evenly. An action that hangs ends the process with SIGPROF. Raises
    KeyError if the mutant does not exist.
    """
    targets = sorted({target for targets in TARGETS.values() for target in targets})
    if mutant:
        install(mutant)
        targets = TARGETS[mutant.partition(" ")[0]]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    total = 0
    with checked_by(_action_begins):
        for target in targets:
            try:
                engine = RandomEngine(make_target(target), ENGINE_SEED)
                for done in slices_of(engine, actions // len(targets), ProbeCounter()):
                    total += done.actions
                    for failure in done.failures:
                        found_by = failure.oracle
                        if failure.field == "error":
                            found_by = CRASH if failure.direction.startswith("crash") else ERROR
                        return Outcome(mutant, found_by, total, f"{target}: {failure.message}")
            except Exception as problem:  # noqa: BLE001 - whatever the mutant leads to
                return Outcome(mutant, EXCEPTION, total, f"{target}: {problem!r}")
    return Outcome(mutant, NOTHING, total)


def _action_begins() -> None:
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)


def fuzz_apart(mutant: str, actions: int) -> Outcome:
    """Fuzz a mutant in a process of its own."""
    ran = subprocess.run(  # noqa: S603 - this program
        [sys.executable, __file__, "--only", mutant, "--actions", str(actions)],
        check=False,
        stdout=subprocess.PIPE,
    )
    if ran.returncode == -signal.SIGPROF:
        return Outcome(mutant, HANG)
    ran.check_returncode()
    return Outcome(**json.loads(ran.stdout))


def equivalents() -> tuple[str, ...]:
    """The first parts of the names of mutants that break no promise."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return tuple(f"{module} {change}" for module in entries for change in entries[module])


def figures(outcomes: Sequence[Outcome], equivalent: tuple[str, ...]) -> str:
    """The table of mutants found, by module, and a line of what found them."""
    rows = ["module                    mutants  found  equivalent  missed  share found"]
    for module in (*TARGETS, "all"):
        of_it = [each for each in outcomes if module in {each.mutant.partition(" ")[0], "all"}]
        survivors = [each.mutant for each in of_it if each.found_by == NOTHING]
        known = sum(mutant.startswith(equivalent) for mutant in survivors)
        found, missed = len(of_it) - len(survivors), len(survivors) - known
        share = f"{found / (found + missed):.1%}" if found + missed else "-"
        rows.append(f"{module:26}{len(of_it):7}{found:7}{known:12}{missed:8}{share:>13}")
    found_by = Counter(each.found_by for each in outcomes if each.found_by != NOTHING)
    rows.append("found by " + ", ".join(f"{by} {times}" for by, times in found_by.most_common()))
    return "\n".join(rows)


def page(figures: str, misses: Sequence[str], actions: int) -> str:
    """The page docs/evidence/mutants.md."""
    command = shlex.join(["python", "benchmarks/mutants.py", *sys.argv[1:]])
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.check_output(git, cwd=PAGE.parent, text=True).strip()  # noqa: S603 - git
    missed = "\n".join(f"- `{each}`" for each in misses)
    return f"""# Which mutants of the reference are found

{datetime.now(UTC).date()}, CPython {platform.python_version()}, commit {commit}. `{command}`
changes one part of one statement of the reference, and fuzzes the result with one seed until
something fails, for at most {actions:,} actions. An equivalent mutant breaks no promise;
`benchmarks/mutants_equivalent.toml` has the reasons. The share found is that of the others.

```text
{figures}
```

## Missed

The brackets contain the original code and its replacement.

{missed or "None."}
"""


@click.command()
@click.option(
    "--count", type=click.IntRange(min=1), help="Fuzz this number of mutants, drawn at random."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of that draw.")
@click.option("--actions", type=click.IntRange(min=1), default=ACTIONS, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=os.cpu_count(), show_default=True)
@click.option("--page", "writes_page", is_flag=True, help=f"Write {PAGE.name} with the figures.")
@click.option("--only", help="Print the result of this mutant as JSON.")
def main(  # noqa: PLR0913 - each is an option
    count: int | None, seed: int, actions: int, workers: int, writes_page: bool, only: str | None
) -> None:
    """Fuzz mutants of gcmodel, and list those that survive."""
    if only is not None:
        print(json.dumps(attrs.asdict(fuzz(only, actions))))
        return
    names = [name for module in TARGETS for name, _ in mutants_of(module)]
    equivalent = equivalents()
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    sample = names if count is None else rng.sample(names, min(count, len(names)))
    unchanged = fuzz_apart("", actions)
    if unchanged.found_by != NOTHING:
        raise click.ClickException(f"gcmodel fails without a mutation: {unchanged.message}")
    outcomes, misses = [], []
    gone = [each for each in equivalent if not any(name.startswith(each) for name in names)]
    wrong = [f"there is no such mutant: {each}" for each in gone]
    with ThreadPoolExecutor(workers) as pool:
        for outcome in pool.map(lambda mutant: fuzz_apart(mutant, actions), sample):
            outcomes.append(outcome)
            is_survivor = outcome.found_by == NOTHING
            is_equivalent = outcome.mutant.startswith(equivalent)
            if is_survivor and not is_equivalent:
                misses.append(outcome.mutant)
                print(f"missed: {outcome.mutant}", flush=True)
            if is_equivalent and not is_survivor:
                wrong.append(f"found by {outcome.found_by}: {outcome.mutant}")
    print(figures(outcomes, equivalent))
    if writes_page:
        PAGE.write_text(page(figures(outcomes, equivalent), sorted(misses), actions), "utf-8")
    for each in wrong:
        print(f"{EQUIVALENT.name}: {each}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
