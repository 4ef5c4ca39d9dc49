"""The target `ocaml`: Memprof of a stock OCaml 4.13, each of its samples foretold.

A mutator in OCaml, which is compiled where the target is started, is asked through pipes. The
modules import the protocol, the problems and `targets.process`, and no formula. A newcomer begins
with `ocaml_driver`.
"""
