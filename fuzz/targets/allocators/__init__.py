"""What the stock allocators share, each a target of its own: jemalloc, gperftools and tcmalloc.

Start reading with `block_driver`.
"""
