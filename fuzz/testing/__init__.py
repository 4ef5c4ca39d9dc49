"""Other people's test suites: machines and traces as tests, whose failures say what a session says.

A newcomer begins with `suites`. The pytest plugin, `pytest_gcfuzz.py`, lies beside the packages: it
is imported in every run of pytest, also where a project has a folder `fuzz` of its own.
"""
