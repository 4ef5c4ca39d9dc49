"""The mutator's own view of the heap, and what is legal for it to do next.

It imports only the protocol, so it does not depend on any target. Start reading with `shadow`.
"""
