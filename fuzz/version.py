"""The version, from which the package's metadata have it: to read these takes longer."""

__version__ = "0.1.0"
