"""What a trace is made of: each kind of action's rule, stories of several, and who draws them.

It imports the protocol, the mutator and the oracles, on whose state its choices lean. A newcomer
begins with `rules`; `draw` puts a trace together.
"""
