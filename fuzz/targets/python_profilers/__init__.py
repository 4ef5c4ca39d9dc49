"""What the targets of Python's profilers share: ddtrace and scalene.

Start reading with `mutator`, the process that is sampled, then `profiler_driver`.
"""

HOW_TO_INSTALL = (
    "pip install 'gcfuzz[python-profilers]', or name a Python that has it with --python"
)
