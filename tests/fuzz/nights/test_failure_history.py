"""The history of failures: its file, how histories are merged, and `gcfuzz triage`."""

from __future__ import annotations

from datetime import date
from multiprocessing import Process
from pathlib import Path

import attrs
import pytest
from command_line import Complaint, Gcfuzz
from made_records import failure, record, written

from fuzz.failure import Failure
from fuzz.failures.corpus import SavedFailure
from fuzz.nights import failure_history as history
from fuzz.nights.failure_history import KnownFailure, Life, NightDone, Shown, Triaged
from fuzz.nights.merge import merge
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import CollectFull
from fuzz.protocol.trace import Header, Trace
from fuzz.terminal.commands.cli import run_command_line

CLEAN = 0
WRONG = Failure("heap", "graph", "collect_full", "different", "1", "2", "made up")
KNOWN = KnownFailure("process", "mine", (), SavedFailure(WRONG, None, 3, 9, 0, reproduced=True))
FIRST, SECOND = (f"2026-11-2{day}T04:00:00+00:00" for day in (1, 2))
NIGHT = NightDone(FIRST, (), actions=1, probes=1, open=1, new=1, fixed=0)
LINES = (KNOWN, NIGHT, Shown(FIRST, KNOWN.id, "open", failed=1, runs=1))
MUTED = Triaged(SECOND, KNOWN.id, muted_until="2026-12-24", because="a fix is in review")


def kept(path: Path, *lines: history.Line) -> Path:
    history.add(path, lines)
    return path


def test_lines_are_added_and_read(tmp_path: Path) -> None:
    path = kept(tmp_path / history.NAME, *LINES)
    before = path.read_text()
    kept(path, MUTED)
    assert path.read_text().startswith(before)
    assert history.read(path).lines == (*LINES, MUTED)


def _add_some(path: Path, first: int) -> None:
    for number in range(first, first + 50):
        history.add(path, [Triaged(FIRST, KNOWN.id, issue=f"https://example.com/{number}")])


@pytest.mark.slow
def test_processes_that_add_at_once_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / history.NAME
    writers = [Process(target=_add_some, args=(path, first)) for first in (0, 50)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert len(history.read(path).lines) == 100


def test_identities_of_one_cause_have_different_ids() -> None:
    cause = ("broke", "heap", "graph", "different", "collect")
    failures = [attrs.evolve(WRONG, action=f"action_{number**9}") for number in range(2000)]
    known = [
        KnownFailure("process", "", cause, attrs.evolve(KNOWN.saved, failure=each))
        for each in failures
    ]
    assert len({each.id for each in known}) == 2000
    # Those of version 0.1.0 had 16 bits for an identity.
    assert len({each.earlier_ids[1] for each in known}) < 2000


def test_what_version_0_1_0_wrote_of_a_failure_still_holds(tmp_path: Path) -> None:
    """Its ids were shorter: these are those that it gave to KNOWN."""
    cause, id_ = "accd2279", "accd2279-3358"
    mute = attrs.evolve(MUTED, failure=cause)
    path = kept(tmp_path / history.NAME, KNOWN, NIGHT, Shown(FIRST, id_, "open"), mute)
    life = history.read(path).lives()[KNOWN.id]
    assert (life.state, life.mute(date(2026, 12, 1))) == ("open", ("2026-12-24", MUTED.because))


def test_an_unreproduced_failure_has_its_identity_as_its_cause() -> None:
    saved = attrs.evolve(KNOWN.saved, reproduced=False)
    one, other = (KnownFailure("process", "", (step,), saved) for step in ("read", "write"))
    assert one.id == other.id


def test_a_history_from_the_future_names_the_line(tmp_path: Path) -> None:
    path = kept(tmp_path / history.NAME, KNOWN, attrs.evolve(NIGHT, at="2931-01-01T04:00:00+00:00"))
    with pytest.raises(BadInputError, match=f"{path}:3: .* in the future: a clock was wrong"):
        history.read(path)


@pytest.mark.parametrize("merges", [0, 1, 2])
def test_a_night_whose_clock_was_behind_stays_in_its_place(merges: int) -> None:
    behind = "1970-01-01T04:00:00+00:00"
    lines: list[history.Line] = [KNOWN]
    states = history.OPEN, history.FIXED, history.OPEN
    for at, state in zip((FIRST, behind, SECOND), states, strict=True):
        run = history.SessionRun(at, "process", "mine", ())
        lines += [attrs.evolve(NIGHT, at=at, sessions=(run,)), Shown(at, KNOWN.id, state)]
    kept_lines = lines
    for _ in range(merges):
        halves = history.FailureHistory(tuple(lines[:5])), history.FailureHistory(tuple(lines))
        kept_lines = history.merged(halves)
    told = history.FailureHistory(tuple(kept_lines))
    assert [each.state for each in told.lives()[KNOWN.id].shown] == ["open", "fixed", "open"]
    assert [each.at for each in told.nights] == [FIRST, behind, SECOND]


def test_a_longer_mute_keeps_its_reason() -> None:
    longer = attrs.evolve(MUTED, muted_until="2026-12-31", because="")
    assert Life(KNOWN, (MUTED, longer)).mute(date(2026, 12, 30)) == ("2026-12-31", MUTED.because)


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    assert history.read(tmp_path / history.NAME).lives() == {}


def test_a_history_that_a_killed_command_cut_off_names_the_line(tmp_path: Path) -> None:
    path = kept(tmp_path / history.NAME, *LINES)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(BadInputError, match=f"{path}:4: is not a line of a history"):
        history.read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"kind": "history", "version": 2}', "this gcfuzz reads version 1"),
        ('{"kind": ["night"]}', "its kind is"),
        ('{"kind": "shown", "at": "today", "failure": "", "state": "open"}', "isoformat"),
        ('{"kind": "shown", "at": "2026-11-21", "failure": "", "state": "open"}', "time zone"),
        (
            f'{{"kind": "triaged", "at": "{FIRST}", "failure": "", "muted_until": "soon"}}',
            "isoformat",
        ),
        (
            f'{{"kind": "triaged", "at": "{FIRST}", "failure": "", "failed": 2, "runs": 1}}',
            "failed is 2 of 1",
        ),
        (
            history.text_of(NightDone(FIRST, (), actions=-1, probes=0, open=0, new=0, fixed=0)),
            "a count is negative",
        ),
    ],
)
def test_a_broken_line_is_bad_input(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / history.NAME
    path.write_text(f"{history.HEAD}\n{line}\n")
    with pytest.raises(BadInputError, match=message):
        history.read(path)


def test_merging_keeps_each_line_once_in_any_order(tmp_path: Path) -> None:
    one, other = (written(tmp_path / name, record(failure())) for name in ("one", "other"))
    kept(one / history.NAME, *LINES)
    kept(other / history.NAME, *LINES, MUTED)
    merge([one, other], tmp_path / "a")
    merge([other, one, tmp_path / "a"], tmp_path / "b")
    merged = (tmp_path / "a" / history.NAME).read_bytes()
    assert merged == (tmp_path / "b" / history.NAME).read_bytes()
    assert len(history.read(tmp_path / "a" / history.NAME).lines) == 4


def test_a_broken_history_is_left_out_of_a_merge(tmp_path: Path) -> None:
    corpus = written(tmp_path / "corpus", record(failure()))
    (corpus / history.NAME).write_text("{")
    _, left_out, _ = merge([corpus], tmp_path / "out")
    assert [f"{history.NAME}:1" in each for each in left_out] == [True]


@pytest.mark.parametrize(
    ("today", "reason"),
    [(date(2026, 12, 24), ("2026-12-24", "a fix is in review")), (date(2026, 12, 25), None)],
)
def test_a_failure_is_muted_up_to_a_day(today: date, reason: tuple[str, str] | None) -> None:
    assert Life(KNOWN, (MUTED,)).mute(today) == reason


# The command.


@pytest.mark.parametrize("id_", [KNOWN.id, KNOWN.cause_id])
def test_a_failure_and_a_cause_are_triaged(id_: str, tmp_path: Path) -> None:
    path = kept(tmp_path / history.NAME, *LINES)
    for options in (
        ["--mute-until", "2999-12-24", "--because", "a fix is in review"],
        ["--flaky", "3/20"],
        ["--issue", "https://example.com/7"],
    ):
        assert run_command_line(["triage", str(tmp_path), id_, *options]) == CLEAN
    life = history.read(path).lives()[KNOWN.id]
    assert life.mute(date(2026, 1, 1)) == ("2999-12-24", "a fix is in review")
    assert life.issue == "https://example.com/7"
    assert life.is_flaky
    assert life.runs == [(1, 1), (3, 20)]


def test_muted_traces_are_not_replayed(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    saved = attrs.evolve(KNOWN.saved, path=Path("a.jsonl"))
    known = attrs.evolve(KNOWN, saved=saved)
    mute = Triaged(SECOND, known.cause_id, muted_until="2999-12-24", because="it is known")
    kept(tmp_path / history.NAME, known, mute)
    for name in ("a.jsonl", "b.jsonl"):
        traces.write_to(
            Trace(Header(traces.VERSION, "reference"), (CollectFull(),)), tmp_path / name
        )
    assert gcfuzz(CLEAN, "replay", tmp_path).out.splitlines() == [
        f"muted until 2999-12-24 because it is known: {tmp_path / 'a.jsonl'}",
        f"passed {tmp_path / 'b.jsonl'}",
        "1 passed, 0 failed",
    ]


def test_without_an_id_the_failures_are_listed(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    path = kept(tmp_path / history.NAME, *LINES)
    identity = "heap / graph / collect_full / different"
    assert gcfuzz(CLEAN, "triage", path).out == f"{KNOWN.id} open process mine {identity}\n"


def test_what_was_set_for_several_failures_is_printed_and_listed(
    tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    other = attrs.evolve(KNOWN, name="yours")
    kept(tmp_path / history.NAME, *LINES, other)
    mute = ["--mute-until", "2999-12-24", "--because", "it is known"]
    printed = gcfuzz(CLEAN, "triage", tmp_path, KNOWN.id, other.cause_id, *mute).out
    assert printed.count(" muted until 2999-12-24 because it is known process ") == 2
    assert gcfuzz(CLEAN, "triage", tmp_path).out == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ffffffff", "--flaky", "3/20"], "has no failure ffffffff"),
        ([KNOWN.id], "Give --mute-until, --flaky or --issue"),
        (["--flaky", "3/20"], "which failure? Name its ID"),
        ([KNOWN.id, "--flaky", "20/3"], "is no share"),
        ([KNOWN.id, "--mute-until", "31.1.2027"], "is not a date; write 2027-01-31"),
        ([KNOWN.id, "--issue", "#7"], "is not an address; write https://"),
        ([KNOWN.id, "ffffffff", "--flaky", "3/20"], "has no failure ffffffff"),
    ],
)
def test_a_wrong_triage_changes_nothing(
    arguments: list[str], message: str, tmp_path: Path, complaint: Complaint
) -> None:
    path = kept(tmp_path / history.NAME, *LINES)
    before = path.read_bytes()
    assert message in complaint("triage", str(tmp_path), *arguments)
    assert path.read_bytes() == before


def test_no_history_means_no_triage(tmp_path: Path, complaint: Complaint) -> None:
    assert "there is no such history" in complaint("triage", str(tmp_path))
