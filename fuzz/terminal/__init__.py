"""What people type and read.

It imports all other rooms, and none imports it. A newcomer begins with `cli`.
"""
