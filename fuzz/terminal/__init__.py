"""The command line and its output: reports, explanations, tables and pages.

Start with `cli`, whose commands import only what each needs, and go on to `report`.
"""
