"""gcmodel: what a correct sampling garbage collector does, as executable specification.

A generational, moving, incremental collector after PyPy's incminimark, with the allocation
sampling of Jung and Bolz-Tereick folded into the nursery's limit check. It is written to be read;
`heap` composes it and is the mutator's view. It knows nothing of the harness that tests with it.
"""

from gcmodel.configuration import Configuration
from gcmodel.errors import (
    ConfigurationError,
    DanglingReferenceError,
    DoubleFreeError,
    HeapError,
    PinningError,
)
from gcmodel.events import Events, Report
from gcmodel.heap import Heap, Parts
from gcmodel.layout import Kind

__all__ = [
    "Configuration",
    "ConfigurationError",
    "DanglingReferenceError",
    "DoubleFreeError",
    "Events",
    "Heap",
    "HeapError",
    "Kind",
    "Parts",
    "PinningError",
    "Report",
]
