"""What passes between the parts, which is also the file format and the wire.

Actions, observations and contracts as plain data; lines and traces, in which they are written. It
imports nothing but problems and files. A newcomer begins with `actions`, then `observation` and
`contract`.
"""
