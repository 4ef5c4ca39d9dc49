"""The driver of `dotnet-finalizers`: the finalizers of a stock .NET, without its sampler.

`python -m fuzz.targets.dotnet.finalizers_driver NAME PROGRAM`. It sends the actions to a process of
the mutator `finalizers.cs`, in which the runtime itself decides when a finalizer is called.
Invariant: a header drops all objects, and finalizers of earlier traces do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import ClassVar

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract, KindLayout, Layout, Range, Setting
from fuzz.protocol.finalizers import Finalizers
from fuzz.targets.dotnet.contract import COLLECTORS
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.driver import CarryOut, Driver

QUESTION, ANSWER, WORD_BYTES = Struct("<6q"), Struct("<2q"), 8
BEGIN, WALK = 0, 19
"""The first and the last question to the mutator. (See finalizers.cs.)"""
OPTIONS = {
    "SYSTEM_GLOBALIZATION_INVARIANT": "1",
    "TieredCompilation": "0",
    "EnableDiagnostics": "0",
    # In hexadecimal: 256 MiB, and a collection after about 64 KiB of small objects.
    "GCHeapHardLimit": "10000000",
    "GCgen0size": "10000",
}
LAYOUT = Layout(
    kinds={
        "node": KindLayout(type_index=1, fixed_bytes=80),
        "array": KindLayout(type_index=3, fixed_bytes=80, item_bytes=8),
        "weakref": KindLayout(type_index=4, fixed_bytes=48),
        "ephemeron": KindLayout(type_index=5, fixed_bytes=48),
    },
    large_object_bytes=1,
    word_bytes=1,
    object_bytes_max=2**13,
)
SHORT, LONG = range(2)
SETTINGS = (
    Setting(
        "collector",
        0,
        Range(0, len(COLLECTORS) - 1),
        choices=(0, 0, 0, 1, 1, 1, 2, 3),
        of_process=True,
    ),
    Setting("weak", SHORT, Range(SHORT, LONG), choices=(SHORT, LONG)),
)
"""The collector, by its number; whether weak references are short or long ones."""


class DotnetFinalizersDriver(Driver):
    """Finalizers, weak handles and a ConditionalWeakTable."""

    settings = SETTINGS

    def __init__(self, name: str, program: str) -> None:
        super().__init__(name)
        self._program = program
        self._mutator: AskedProcess | None = None

    def close(self) -> None:
        if self._mutator is not None:
            self._mutator.close()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        if self._mutator is None or self._mutator.has_ended:
            options = {**OPTIONS, **[*COLLECTORS.values()][chosen["collector"]]}
            named = [f"DOTNET_{name}={value}" for name, value in options.items()]
            self._mutator = AskedProcess(["env", "-i", *named, self._program], {})
        is_long = chosen["weak"] == LONG
        self.ask(BEGIN, is_long)
        return Contract(
            nursery_bytes=1024,
            layout=LAYOUT,
            actions=self.actions,
            observes=("minors", "value", "alive", "graph", "finalized"),
            finalizers=Finalizers(
                registrations="one_at_a_time",
                weak="cleared_after" if is_long else "cleared_before",
                ephemerons="attached",
            ),
            settings=SETTINGS,
            version=".NET 10",
        )

    def ask(self, what: int, *numbers: int) -> list[int]:
        """The values of the answer. Raises EOFError if the process has ended."""
        assert self._mutator is not None
        self._mutator.send(QUESTION.pack(what, *numbers, *[0] * (5 - len(numbers))))
        count, self.collections = ANSWER.unpack(self._mutator.receive(ANSWER.size))
        if count < 0:
            raise ValueError("the runtime cannot do that")
        return [*Struct(f"<{count}q").unpack(self._mutator.receive(count * WORD_BYTES))]

    def value(self, what: int, *numbers: int) -> int | None:
        values = self.ask(what, *numbers)
        return values[0] if values else None

    def write(self, root: int, field: int, value: int | None) -> None:
        self.ask(10, root, field, -1 if value is None else value)

    def after_collection(self) -> None:
        self.observation.graph = self.graph()

    def graph(self) -> list[list[int]]:
        """What a walk from the roots finds."""
        numbers = iter(self.ask(WALK))
        return [[next(numbers) for _ in range(count)] for count in numbers]

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.AllocateNode: lambda driver, each: driver.value(1, each.number),
        actions.AllocateArray: lambda driver, each: driver.value(2, each.length),
        actions.AllocateWeakref: lambda driver, each: driver.value(3, each.root),
        actions.AllocateEphemeron: lambda driver, each: driver.value(4, each.key, each.value),
        actions.Free: lambda driver, each: driver.ask(5, each.root),
        actions.Read: lambda driver, each: driver.value(6, each.root, each.field),
        actions.ReadNumber: lambda driver, each: driver.value(7, each.root),
        actions.ReadWeakref: lambda driver, each: driver.value(8, each.root) == 1,
        actions.ReadEphemeron: lambda driver, each: driver.value(9, each.root),
        actions.Write: lambda driver, each: driver.write(each.root, each.field, each.value),
        actions.WriteNumber: lambda driver, each: driver.ask(11, each.root, each.number),
        actions.CopyArray: lambda driver, each: driver.ask(
            *(12, each.source, each.dest, each.source_start, each.dest_start, each.length)
        ),
        actions.CollectMinor: lambda driver, _: driver.ask(13),
        actions.CollectFull: lambda driver, _: driver.ask(14),
        actions.RegisterFinalizer: lambda driver, each: driver.ask(15, each.root, each.number),
        actions.UnregisterFinalizer: lambda driver, each: driver.ask(16, each.root),
        actions.RunFinalizers: lambda driver, each: driver.ask(17, each.keep),
        actions.Resurrect: lambda driver, each: driver.ask(18, each.number),
        actions.CheckHeap: lambda driver, _: driver.graph(),
    }


if __name__ == "__main__":
    DotnetFinalizersDriver.main()
