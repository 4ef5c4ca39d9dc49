"""What the mutator itself knows: its own view of the heap, and what it may do next.

It imports the protocol only, so that no target can talk it into anything. A newcomer begins with
`shadow`.
"""
