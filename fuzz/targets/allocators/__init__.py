"""The targets `jemalloc` and `gperftools`: stock allocators, each driven by a program of its own.

They import the protocol, the problems and `serve` of `targets.process`, and no formula. A newcomer
begins with `stock_blocks`, what they have in common, then `jemalloc_driver`.
"""
