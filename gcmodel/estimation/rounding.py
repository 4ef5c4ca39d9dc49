"""Rounding as C's `round` does it: halves away from zero, where Python goes to the even one."""


def round_half_up(value: float) -> int:
    """The whole number nearest to `value`, which is 0 or more; the larger one for a half."""
    whole = int(value)
    return whole + (value - whole >= 1 / 2)
