"""The targets `ddtrace` and `scalene`: Python's own allocation samplers, as pip installs them.

They import the protocol, the problems and `targets.process`, and no formula. A newcomer begins with
`mutator`, the process that is sampled, then `scalene_driver`.
"""
