"""The targets that are gcmodel, in this process: the collector and its kin.

They import gcmodel, the protocol, problems and the bugs that can be planted, and write their
contracts out in figures. A newcomer begins with `collector`; `kin` has the names.
"""
