"""One failure: saved, run again, reduced, compared between two targets, and its likely cause.

It knows no session. Start reading with `corpus`.
"""
