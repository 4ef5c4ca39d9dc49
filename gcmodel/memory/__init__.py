"""What all other rooms are about: objects, the nursery, configurations, events, errors.

It imports nothing. A newcomer begins with `objects`, then `nursery`, whose `allocate` is
the fast path.
"""
