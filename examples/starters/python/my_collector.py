"""Connects a collector that Python can drive: the target `my_collector:MyCollector`."""

from fuzz import Contract, KindLayout, Layout, Observation, Range, SamplingRule, actions


# Replace what has a comment `YOURS`. `gcfuzz help protocol` explains each name.
class MyCollector:
    def start(self, configuration):
        # YOURS: start your collector again, with an empty heap.
        self.period_bytes = self.counted_bytes = 0  # A period of 0: sampling is off.
        # YOURS: what an object costs, by its kind; a string of 60 characters costs 16 + 60 bytes.
        kinds = {"string": KindLayout(type_index=1, fixed_bytes=16, item_bytes=1)}
        return Contract(
            nursery_bytes=1024,
            layout=Layout(kinds, large_object_bytes=2**17, object_bytes_max=2**16, word_bytes=1),
            # YOURS: what `perform` carries out. Nothing else is asked for.
            actions=("allocate_string", "free", "enable_sampling", "disable_sampling"),
            # YOURS: what its answers have. Each field adds a check.
            observes=("samples", "size"),
            # YOURS: which allocations are sampled: `gcfuzz help sampling-rules`. If you do not
            # know, `gcfuzz check --suggest --target my_collector:MyCollector` finds out.
            sampling=SamplingRule(period_bytes=Range(1, 2**20), disabling=("drop",)),
        )

    def perform(self, action):
        samples, size = 0, 0
        match action:
            case actions.EnableSampling(period_bytes=period_bytes):
                self.period_bytes, self.counted_bytes = period_bytes, 0
            case actions.DisableSampling():
                self.period_bytes = 0
            case actions.AllocateString(length=length):
                # YOURS: allocate the string, and ask your sampler.
                size = 16 + length
                self.counted_bytes += size
                while self.period_bytes and self.counted_bytes > self.period_bytes:
                    self.counted_bytes -= self.period_bytes
                    samples += 1
        return Observation(samples=samples, size=size)
