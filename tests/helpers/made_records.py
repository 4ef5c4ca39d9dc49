"""Records of made-up sessions, for tests of merging and reporting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Data = dict[str, Any]


def failure(oracle: str = "heap", path: str | None = None, **changed: object) -> Data:
    kind = {"oracle": oracle, "field": "graph", "action": "collect_full", "direction": "different"}
    reported: Data = kind | dict.fromkeys(("expected", "got", "why"), "made up")
    saved: Data = {"path": path, "length": 3, "reduced_from": 9, "reproduced": True, "chunk": 0}
    for name, value in changed.items():
        (saved if name in {*saved, "tries"} else reported)[name] = value
    return {"failure": reported, **saved}


def totals(**changed: object) -> Data:
    counts: Data = {"traces": 2, "actions": 100, "samples": 7, "minor_collections": 5}
    return {
        **counts,
        "probes": {"callback_sampled": 3, "weakref_died": 0},
        "changes": {},
        **changed,
    }


def piece(*lost: int, chunks: tuple[int, int, int] = (0, 2, 1), **counts: object) -> Data:
    return {"chunks": [*chunks], "lost": [*lost], "totals": totals(**counts)}


def record(*failures: Data, target: str = "reference", seed: int = 1, **changed: Any) -> Data:
    options = changed.pop("options", [])
    plan = {"target": target, "options": options, "without": [], "before": None}
    pieces = changed.pop("pieces", [piece()])
    return {
        "gcfuzz_session": 1,
        "totals": pieces[0].get("totals"),
        "plan": {**plan, "engine": "random", "seed": seed, "budget_actions": 100},
        "failures": [*failures],
        "stop_reason": "actions",
        "pieces": pieces,
        "beyond": [],
        "timing": [timing()],
        **changed,
    }


def timing(*history: tuple[float, int, int, int], **changed: object) -> Data:
    names = "seconds", "actions", "probes", "failures"
    return {
        "started": "2026-11-22T02:00:00+00:00",
        "seconds": 60.0,
        "workers": 2,
        "actions": 100,
        "actions_per_second": 2,
        "chunks": 2,
        "canaries": 0,
        "history": [dict(zip(names, point, strict=True)) for point in history],
        "versions": {"gcfuzz": "0.1.0", "commit": "8255874"},
        **changed,
    }


def written(folder: Path, *sessions: Data) -> Path:
    """A corpus with the records of sessions."""
    (folder / "sessions").mkdir(parents=True)
    for number, session in enumerate(sessions):
        (folder / "sessions" / f"{number}.json").write_text(json.dumps(session))
    return folder
