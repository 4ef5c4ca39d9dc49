"""malloc and free, by the rules of three allocators.

It imports generators and distances from sampling, the formulas of estimation, and the errors of
memory. Start with `block_heap`. `history` makes TCMalloc's profiles, and no other module uses it.
"""
