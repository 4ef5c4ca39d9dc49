"""The target `process`: any program that speaks the protocol, and `serve`, its other side.

It imports the protocol only. A newcomer begins with `program`; `conversation` is one process of it.
"""
