"""What an oracle raises: what it expected, and what the target said instead."""

from __future__ import annotations


class Mismatch(Exception):  # noqa: N818 - the house's noun; it is a finding, not an error
    """A target broke its contract. Each oracle raises a subclass of its own."""

    oracle = ""

    def __init__(self, field: str, expected: object, got: object, why: str) -> None:
        super().__init__(f"{self.oracle}: {field}: expected {expected}, got {got} ({why})")
        self.field = field
        self.expected = expected
        self.got = got
        self.why = why

    @property
    def direction(self) -> str:
        """More or less than expected; for errors, which one; otherwise just different."""
        expected, got = self.expected, self.got
        if isinstance(got, str) and self.field == "error":
            return got.split(":", 1)[0]
        if isinstance(expected, int) and isinstance(got, int) and expected != got:
            return "more" if got > expected else "less"
        return "different"
