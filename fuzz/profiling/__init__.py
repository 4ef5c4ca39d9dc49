"""`gcfuzz profile`: what allocates, in a workload, a script or a trace, as a profile to look at.

It runs the reference collector and has `gcmodel.profiling` record it; to replay a trace it imports
run, targets, protocol and oracles, but nothing here judges, and only the terminal imports it. A
newcomer begins with `making`, the way from what is profiled to its files: `programs` and `traces`
are what can be profiled, `choice` and `outputs` what the command line named, `screen` what people
read.
"""
