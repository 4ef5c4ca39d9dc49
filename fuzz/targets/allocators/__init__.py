"""The targets `jemalloc` and `gperftools`: stock allocators, each driven by a program of its own.

The programs import the protocol, `stock_blocks` and `stock_library`, and no formula. A newcomer
begins with `stock_blocks`, then `jemalloc_driver`.
"""
