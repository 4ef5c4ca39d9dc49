"""A benchmark with less to do, to see that it works: `short_benchmark.py NAME [its arguments]`.

It needs the folder `benchmarks` on the path. What is printed means nothing.
"""

import sys
from importlib import import_module

LESS: dict[str, dict[str, object]] = {
    "throughput": {
        "TURNS": 1,
        "ACTIONS": 500,
        "SESSION_ACTIONS": 500,
        "LONG_TRACE": 200,
        "LONG_TRACES": 1,
        "PART": 100,
        "STEPS": (10,),
        "LIVE_OBJECTS": (4, 8),
        "ROUNDS": 2,
    },
    "effectiveness": {"BUGS": ["large-objects-uncounted"]},
}

if __name__ == "__main__":
    del sys.argv[0]
    module = import_module(sys.argv[0])
    for name, value in LESS.get(sys.argv[0], {}).items():
        assert hasattr(module, name)
        setattr(module, name, value)
    module.main()
