"""The collector: the heap as the mutator sees it, and the parts of which it is composed.

It imports the memory, and of sampling only what it is composed of by default (`heap`) and the
interface that the parts tell of collections. Its parts know their heap, which knows them: that
circle is meant, and lies in here. `invariants` says in code what they promise each other, and none
imports it. A newcomer begins with `heap`, then `minor`.
"""
