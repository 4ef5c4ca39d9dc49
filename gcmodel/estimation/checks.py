"""Range checks of arguments. Each raises ValueError with the argument's name."""


def check_open_unit(name: str, value: float) -> None:
    """`value` must be strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; it must be between 0 and 1, both excluded")


def check_at_least(name: str, value: float, least: float) -> None:
    """`value` must be `least` or more, and not NaN."""
    if not value >= least:
        raise ValueError(f"{name} is {value}; it must be at least {least}")


def check_above(name: str, value: float, bound: float) -> None:
    """`value` must be above `bound`."""
    if not value > bound:
        raise ValueError(f"{name} is {value}; it must be above {bound}")
