"""The target `go`: a stock Go, each of its samples foretold.

A mutator in Go, which the user's own Go compiles, is asked through a pipe. The modules import the
protocol, the problems and `targets.process`, and no formula. A newcomer begins with `go_driver`.
"""

GO, AS_DOCUMENTED = "go", "go-as-documented"
GOS = (GO, AS_DOCUMENTED)
