"""gcmodel: what a correct sampling garbage collector does, as executable specification.

A generational, moving, incremental collector after PyPy's incminimark, with the allocation
sampling of Jung and Bolz-Tereick folded into the nursery's limit check. It is written to be read;
`heap` composes it and is the mutator's view. It knows nothing of the harness that tests with it.
"""

from gcmodel.collector.heap import Heap, Parts
from gcmodel.memory.configuration import Configuration, TlabSizes
from gcmodel.memory.errors import (
    ConfigurationError,
    DanglingReferenceError,
    DoubleFreeError,
    HeapError,
    PinningError,
)
from gcmodel.memory.events import Events, Report
from gcmodel.memory.layout import Kind
from gcmodel.sampling.contexts import ContextAllocation, ContextNursery, ContextSampling
from gcmodel.sampling.shipped_contexts import ShippedAllocation, ShippedSampling
from gcmodel.sampling.tlab import ChargingAhead, CountingAllocated, TlabAllocation, TlabNursery

__all__ = [
    "CONTEXTS",
    "SHIPPED_CONTEXTS",
    "TLABS",
    "TLABS_CHARGED_AHEAD",
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
    "TlabSizes",
]

CONTEXTS = Parts(nursery=ContextNursery, allocation=ContextAllocation, sampling=ContextSampling)
"""The parts of a heap whose threads allocate in contexts, by the design document of .NET's."""
SHIPPED_CONTEXTS = Parts(
    nursery=ContextNursery, allocation=ShippedAllocation, sampling=ShippedSampling
)
"""The same as .NET 10 ships it."""
TLABS = Parts(nursery=TlabNursery, allocation=TlabAllocation, sampling=CountingAllocated)
"""Of one whose threads have TLABs, as in HotSpot 25."""
TLABS_CHARGED_AHEAD = Parts(nursery=TlabNursery, allocation=TlabAllocation, sampling=ChargingAhead)
"""And as in HotSpot 11 to 24."""
