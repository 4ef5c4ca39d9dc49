"""What the targets of stock allocators share: jemalloc, gperftools and tcmalloc.

Start reading with `block_driver`.
"""
