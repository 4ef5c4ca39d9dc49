"""What a sampled allocation stands for: from samples to counts, bytes, errors and profiles.

It imports nothing of gcmodel, so samples may be of any collector or allocator; `intervals` alone
needs scipy, which the extra `estimates` installs. A newcomer begins with `samples`, then takes an
estimator (`unbiased`, `failed_trials`, `jemalloc`, `tcmalloc`): each says how many objects and
bytes one sample stands for, and sums are sums of that: unbias, then sum.
"""
