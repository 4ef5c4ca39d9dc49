"""Objects, the nursery, configurations, events and errors. All other packages use them.

It imports no other package. Start with `objects`, then `nursery`, whose `allocate` is the fast
path.
"""
