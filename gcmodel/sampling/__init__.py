"""Allocation sampling: the switch, the reports, the sample point, and the slow path.

It imports memory only. `slow_path` defines what it needs of a heap. Start with `sample_point`, then
`slow_path`. `contexts` is .NET's sampler, `tlab` is HotSpot's.
"""
