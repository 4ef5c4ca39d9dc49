"""gcmodel: an executable specification of a correct sampling garbage collector.

The collector is generational, moving and incremental, after PyPy's incminimark. It samples
allocations in the nursery's limit check, as Jung and Bolz-Tereick describe. `Heap` is the mutator's
view. Nothing here imports the test harness.
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
"""Allocation contexts, as in the design document of .NET's sampler."""
SHIPPED_CONTEXTS = Parts(
    nursery=ContextNursery, allocation=ShippedAllocation, sampling=ShippedSampling
)
"""Allocation contexts, as in .NET 10."""
TLABS = Parts(nursery=TlabNursery, allocation=TlabAllocation, sampling=CountingAllocated)
"""Thread-local allocation buffers, as in HotSpot 25."""
TLABS_CHARGED_AHEAD = Parts(nursery=TlabNursery, allocation=TlabAllocation, sampling=ChargingAhead)
"""Thread-local allocation buffers, as in HotSpot 11 to 24."""
