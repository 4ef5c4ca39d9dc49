"""`gcfuzz profile`: records the allocations of a workload, a script or a trace as a profile.

It runs the reference collector, which `gcmodel.profiling` records, and judges nothing. Start with
`making`; `programs` and `traces` are the inputs, `choice` and `outputs` the arguments.
"""
