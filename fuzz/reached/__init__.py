"""Reached: which situations and combinations of facts a session has tested.

`probes` counts named situations, and `combinations` which facts held at once. Invariant: both look
at actions, answers and the state of the oracles, and never at what drew the actions.
"""
