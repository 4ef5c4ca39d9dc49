"""The collector: the heap as the mutator sees it, and the parts of which it is composed.

It imports memory, and from sampling the default parts and the interface through which collections
notify the sampler. A heap and its parts refer to each other; that circle stays inside this package.
`invariants` checks what the parts promise each other, and no part imports it. Start with `heap`,
then `minor`.
"""
