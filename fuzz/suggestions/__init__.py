"""`gcfuzz check --suggest`: the contracts that a target's answers fit.

Read `suggest` first. `collect` gets the answers, and `seen_costs` solves what objects cost.
`candidates` lists the keys that may be changed, and `fitting` judges the answers under changed
contracts.
"""
