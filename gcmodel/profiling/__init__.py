"""Allocation profiles of the reference collector: recorded, read, exported for people to look at.

    heap ─events─► recorder ─lines─► recording ─read─► profile ─► firefox, pprof, text_formats

It imports all of gcmodel but blocks and workloads. A newcomer begins with the lines of `recording`,
then reads `recorder`, which writes them, `following`, which tells it what is freed, and
`sampled_run`, which runs a program for it.

Invariant: the recorder is told plain data and has no heap, so it can neither allocate in it nor
change it. All formats are made of the recording, whenever somebody asks for one, also when the
process that made it was killed. (Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a
Garbage Collected Virtual Machine, sections 2.5, 3.5, 3.6 and 4.)
"""
