"""`gcfuzz profile`: what allocates, in a workload, a script or a trace, as a profile to look at.

The reference collector is what runs, and `gcmodel.profiling` records it, reads the recording and
exports it. Here is what the command line needs: what can be profiled (`programs`, `traces`), the
way from there to the files (`making`), and what people read (`screen`). Nothing here judges.
"""
