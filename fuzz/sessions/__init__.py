"""What is done with many traces: search, find, reduce, keep, hunt and measure.

It may import engines, targets (of the single ones `bugs`, `process` and `references`), the one
loop and whatever these import. A newcomer begins with `plan`, which cuts a session into chunks, and
goes on to `session`, the parent's side, and `worker`, the other; a failure goes on to `reduce` and
`corpus`, and what all came to stands in `record`.
"""
