"""Many sessions: merged, and summed up as a night, with what is known of each failure.

Start reading with `night`.
"""
