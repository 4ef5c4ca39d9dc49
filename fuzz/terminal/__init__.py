"""What people type and read: the command line, reports, explanations, tables and pages.

It may import every room but engines, oracles, testing and the single targets, of which it needs
`bugs` and `references`; of the rooms only `testing` imports it, to say what it says. A newcomer
begins with `cli`, whose commands import only what each needs, and goes on to `report`.
"""
