"""Sessions: many traces, run by many workers, and what is made of the results.

Start with `plan`, which cuts a session into chunks. `session` runs them with `pool` and `cases`,
and `worker` is the process on the other side. A failure goes on to `fuzz.failures`, and the results
to `record`.
"""
