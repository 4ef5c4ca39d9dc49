"""Estimates from samples: objects, bytes, their errors, and profiles.

It imports nothing else of gcmodel, so samples may come from any collector or allocator. Only
`intervals` needs scipy, which the extra `estimates` installs. Start with `samples`, then choose an
estimator: `unbiased`, `failed_trials`, `jemalloc` or `tcmalloc`. Each computes the objects and
bytes that one sample stands for. Unbias each sample first, then sum. All functions raise ValueError
for a figure outside its range.
"""
