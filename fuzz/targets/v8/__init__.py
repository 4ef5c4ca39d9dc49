"""The target `v8`: Node's sampling heap profiler, each of its samples foretold.

The mutator is a program for Node, which speaks the protocol itself and carries out a trace as a
batch. Of Python there is only its command line, in `v8_command`, where a newcomer begins; it
imports the problems alone.
"""
