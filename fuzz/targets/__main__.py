"""`python -m fuzz.targets NAME` is a program that answers for the target of that name."""

import sys

from fuzz.plain import plain
from fuzz.problems import BadInputError
from fuzz.targets import make_target
from fuzz.targets.process.serve import serve

if __name__ == "__main__":
    try:
        [name] = sys.argv[1:]
        serve(make_target(name), sys.stdin, sys.stdout)
    except (ValueError, BadInputError) as problem:
        sys.exit(plain(f"python -m fuzz.targets NAME: {problem}"))
