"""`python -m fuzz` is `gcfuzz`."""

from fuzz.cli import main

if __name__ == "__main__":
    main()
