"""Allocation profiles of the reference collector: recorded, read, and exported.

    heap ─events─► recorder ─lines─► recording ─read─► profile ─► firefox, pprof, text_formats

It imports all of gcmodel but blocks and workloads. Start with the lines of `recording`, then read
`recorder`, which writes them, `following`, which reports freed objects, and `sampled_run`, which
runs a program.

Invariant: the recorder receives plain data and has no heap, so it can neither allocate in it nor
change it. All formats are made from the recording, even if the process that wrote it was killed.
(Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine,
sections 2.5, 3.5, 3.6 and 4.)
"""
