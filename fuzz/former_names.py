"""The former names of oracles and targets, as files and commands of earlier versions have them.

Invariant: what is read has the present name. What is computed from a name and is itself in files
(the ids of a history, a trace's digest) is computed from the first name, so that it stays the same.
"""

ORACLES = {"room": "placement", "at-once": "concurrency"}
TARGETS = {"hotspot-at-once": "hotspot-concurrent"}
"""Present names by former ones. An entry stays for as long as such files are read."""
_FIRST = {now: former for names in (ORACLES, TARGETS) for former, now in names.items()}


def oracle_named(name: str) -> str:
    """The present name of an oracle."""
    return ORACLES.get(name, name)


def target_named(name: str) -> str:
    """The present name of a target."""
    return TARGETS.get(name, name)


def first_name(name: str) -> str:
    """The first name of an oracle or a target; any other text as it is."""
    return _FIRST.get(name, name)
