"""The known bugs, each a subclass of the part of gcmodel with the mistake.

They import gcmodel and nothing of the harness. Start reading with `known_bug`, which describes a
bug, and then read any of `known_bugs`.
"""
