"""The driver of `dotnet-finalizers`: the finalizers of a stock .NET, without its sampler.

`python -m fuzz.targets.dotnet.finalizers_driver NAME PROGRAM`. It sends the actions to a process of
the mutator, in which the runtime itself decides when a finalizer is called. Invariant: a header
drops all objects, and finalizers of earlier traces do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.targets.dotnet.contract import COLLECTORS
from fuzz.targets.dotnet.driver import DotnetDriver
from fuzz.targets.dotnet.runtime import Ask, MutatorProcess, end_like
from fuzz.targets.process.driver import CarryOut

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


class DotnetFinalizersDriver(DotnetDriver):
    """Finalizers, weak handles and a ConditionalWeakTable."""

    settings = SETTINGS

    def close(self) -> None:
        if self._threads:
            self.process.close()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        if not self._threads:
            flags = [*COLLECTORS.values()][chosen["collector"]]
            self.process = MutatorProcess(self._program, {**flags, "EnableDiagnostics": "0"}, 1)
            self._threads = self.process.threads
            [self.thread] = self._threads
        is_long = chosen["weak"] == LONG
        try:
            self.ask(Ask.BEGIN, is_long)
        except EOFError:
            end_like(self.process.exit_code)
        return Contract(
            nursery_bytes=1024,
            layout=LAYOUT,
            actions=self.actions,
            observes=("minors", "value", "alive", "graph", "finalized"),
            weak_reads="kept",
            finalizers=Finalizers(
                registrations="one_at_a_time",
                weak="cleared_after" if is_long else "cleared_before",
                ephemerons="attached",
            ),
            settings=SETTINGS,
            version=".NET 10",
        )

    def ask(self, what: Ask, *numbers: int) -> None:
        """Ask what may collect."""
        self.collections = self.thread.ask(what, *numbers).collections

    def more(self, what: Ask, *numbers: int) -> list[int]:
        """The numbers that follow the answer."""
        self.thread.ask(what, *numbers)
        return [*self.thread.more]

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.AllocateNode: lambda driver, each: driver.ask(Ask.FINALIZABLE, each.number),
        actions.AllocateArray: lambda driver, each: driver.ask(Ask.ARRAY, each.length),
        actions.AllocateWeakref: lambda driver, each: driver.ask(Ask.WEAKREF, each.root),
        actions.AllocateEphemeron: lambda driver, each: driver.ask(
            Ask.EPHEMERON, each.key, each.value
        ),
        **{each: DotnetDriver.CARRY_OUT[each] for each in (actions.Free, actions.Read)},
        actions.ReadNumber: DotnetDriver.CARRY_OUT[actions.ReadNumber],
        actions.ReadWeakref: lambda driver, each: (
            driver.thread.ask(Ask.READ_WEAKREF, each.root, each.keep).value == 1
        ),
        actions.ReadEphemeron: lambda driver, each: next(
            iter(driver.more(Ask.READ_EPHEMERON, each.root)), None
        ),
        **{each: DotnetDriver.CARRY_OUT[each] for each in (actions.Write, actions.WriteNumber)},
        actions.CopyArray: DotnetDriver.CARRY_OUT[actions.CopyArray],
        actions.CollectMinor: lambda driver, _: driver.ask(Ask.COLLECT_YOUNG),
        actions.CollectFull: lambda driver, _: driver.ask(Ask.COLLECT),
        actions.RegisterFinalizer: lambda driver, each: driver.ask(
            Ask.REGISTER, each.root, each.number
        ),
        actions.UnregisterFinalizer: lambda driver, each: driver.ask(Ask.UNREGISTER, each.root),
        actions.RunFinalizers: lambda driver, each: driver.more(Ask.RUN_FINALIZERS, each.keep),
        actions.Resurrect: lambda driver, each: driver.ask(Ask.RESURRECT, each.number),
        actions.CheckHeap: DotnetDriver.CARRY_OUT[actions.CheckHeap],
    }


if __name__ == "__main__":
    DotnetFinalizersDriver.main()
