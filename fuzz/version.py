"""The version, from which the package's metadata have it, and those on which an engine depends."""

from collections.abc import Iterable
from functools import cache

__version__ = "0.2.0"
"""To read it from the metadata takes longer."""
HYPOTHESIS = "hypothesis"


@cache
def versions_for(engine: str) -> dict[str, str]:
    """The versions on which the traces that an engine draws depend, by package.

    Each version of Hypothesis may draw other traces from the same seed. To import it takes longer.
    """
    versions = {"gcfuzz": __version__}
    if engine == "stateful":
        from importlib.metadata import version  # noqa: PLC0415 - few commands need it

        versions[HYPOTHESIS] = version(HYPOTHESIS)
    return versions


def other_hypothesis(drew: Iterable[str | None]) -> str | None:
    """The versions of Hypothesis that drew something and are not the one here, in words.

    None if there are none; a version is None where Hypothesis did not draw.
    """
    versions = {each for each in drew if each is not None}
    if not versions:
        return None
    here = versions_for("stateful")[HYPOTHESIS]
    others = sorted(versions - {here})
    return f"Hypothesis {' and '.join(others)}, and this is {here}" if others else None
