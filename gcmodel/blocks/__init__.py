"""malloc and free, by the rules of three allocators.

It imports generators and distances from sampling, the formulas of estimation, and the errors of
memory. A newcomer begins with `block_heap`; `history`, of which TCMalloc's profiles are made, is
for whoever has samples to profile, and nothing here uses it.
"""
