"""Allocation sampling: the switch and its reports, the sample point, the slow path it shares.

It imports memory alone; of the collector it knows what `slow_path` asks of a heap. A newcomer
begins with `sample_point`, then `slow_path`; `contexts` is .NET's way.
"""
