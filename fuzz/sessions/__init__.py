"""What is done with many traces: search, find, reduce, keep, and measure.

It imports engines, targets and the one loop. A newcomer begins with `session`; a failure goes on
to `reduce` and `corpus`.
"""
