"""Drawing: a rule for each kind of action, scenarios of several, and what draws a trace from them.

It imports the protocol, the mutator and the oracles, from whose state it draws. Start reading with
`rules`; `draw` puts a trace together.
"""
