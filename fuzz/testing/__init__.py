"""gcfuzz in other test suites: state machines, sessions and saved traces as tests.

Start with `suites`. The pytest plugin, `pytest_gcfuzz.py`, is beside the packages.
"""
