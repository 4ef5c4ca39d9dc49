"""Programs that speak the protocol: the harness's side (`program`) and theirs (`serve`, `driver`).

Start reading with `program`; `conversation` is one process of it. The other modules are what the
drivers share: `threads`, `byte_reader`, `timed` allocations, `asked_process`, a mutator in its own
process, and `user_programs`, which compiles one.
"""
