"""The target `incminimark`: PyPy's own collector, untranslated, under Python 2.7.

Of the harness it imports the problems only, and `driver`, which runs there, nothing at all. A
newcomer begins with `command`, which finds the interpreter, and reads `driver` from its end.
"""
