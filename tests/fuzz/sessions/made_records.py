"""Records of sessions that never were, for tests of what is made of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Data = dict[str, Any]


def failure(oracle: str = "heap", **changed: object) -> Data:
    kind = {"oracle": oracle, "field": "graph", "action": "collect_full", "direction": "different"}
    said = dict.fromkeys(("message", "expected", "got", "why", "where"), "made up")
    rest = {"actions": 3, "reduced_from": 9, "reproduced": True, "chunk": 0, "trace": None}
    return {**kind, **said, **rest, **changed}


def record(*failures: Data, target: str = "reference", **changed: object) -> Data:
    counts: Data = {"traces": 2, "actions": 100, "samples": 7, "minor_collections": 5}
    counts["probes"] = {"callback_sampled": 3, "weakref_died": 0}
    return {
        "gcfuzz_session": 1,
        "target": target,
        "options": [],
        "without": [],
        "before": None,
        "engine": "random",
        "seed": 1,
        "budget_actions": 100,
        **counts,
        "failures": [*failures],
        "stop_reason": "actions",
        "pieces": [{"chunks": [0, 2, 1], "lost": [], **counts}],
        "beyond": [],
        "timing": [timing()],
        **changed,
    }


def timing(*history: tuple[float, int, int, int], **changed: object) -> Data:
    return {
        "started": "2026-11-22T02:00:00+00:00",
        "seconds": 60.0,
        "workers": 2,
        "actions": 100,
        "actions_per_second": 2,
        "chunks": 2,
        "history": [*history],
        "versions": {"gcfuzz": "0.1.0", "commit": "8255874"},
        **changed,
    }


def written(folder: Path, *sessions: Data) -> Path:
    """A corpus with the records of sessions."""
    (folder / "sessions").mkdir(parents=True)
    for number, session in enumerate(sessions):
        (folder / "sessions" / f"{number}.json").write_text(json.dumps(session))
    return folder
