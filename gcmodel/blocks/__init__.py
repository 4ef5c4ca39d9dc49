"""malloc and free, by the rules of three allocators.

It imports generators and distances from sampling, and the formulas of `estimation`. A newcomer
begins with `block_heap`. `history`, of which TCMalloc's profiles are made, is for whoever has
samples to profile; nothing here uses it.
"""
