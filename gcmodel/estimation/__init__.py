"""What a sampled allocation stands for: from samples to counts, bytes, errors and profiles.

Samples come from any sampler, of this package or of a real collector or allocator, as `samples`
has them. An estimator says how many objects and bytes one sample stands for (`unbiased`,
`failed_trials`, `jemalloc`, `tcmalloc`), and sums are sums of that: unbias, then sum. `intervals`
needs scipy, which the extra `estimates` installs; the rest does without, and so does `import
gcmodel`.
"""
