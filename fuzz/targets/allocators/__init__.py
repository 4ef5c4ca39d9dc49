"""The targets `jemalloc`, `gperftools` and `tcmalloc`: stock allocators, each in its own process.

They import the protocol, the problems and `targets.process`, and no formula. A newcomer begins with
`stock_blocks`, what they have in common, then `jemalloc_driver`.
"""
