"""The known bugs, each a subclass of the part of gcmodel where the mistake is made.

They import gcmodel and nothing of the harness. A newcomer begins with `known_bug`, which says what
is known of one, and then reads any of `known_bugs`.
"""
