"""The target `process`: any program that speaks the protocol, and `serve`, its other side.

It imports the protocol, problems and cancellation, and no other target. A newcomer begins with
`program`; `conversation` is one process of it. What other targets' drivers have in common stands
here too: `threads`, `asked_process`, a mutator in a process of its own, and `user_programs`, what
compiles such a one.
"""
