"""The target `hotspot`: a stock Java virtual machine, each of its allocations foretold.

It is made in a process of its own and driven through JNI and JVMTI, by ctypes alone. The modules
import the protocol, the problems, `serve` and the threads of `targets.process`, and no formula. A
newcomer begins with `hotspot_driver`.
"""
