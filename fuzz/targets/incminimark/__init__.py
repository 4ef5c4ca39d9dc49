"""The target `incminimark`: PyPy's own collector, untranslated, under Python 2.7.

`driver` runs there and imports nothing of this package; `command` finds the interpreter for it.
"""
