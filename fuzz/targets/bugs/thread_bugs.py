"""Known bugs of threads: what one leaves behind, and what the collection sees of the others.

Each subclass overrides the method with the mistake, and a comment states the correct behaviour.
"""

from __future__ import annotations

from fuzz.targets.bugs.known_bug import Host
from gcmodel.collector.mutator_threads import LoggingBarrier, ThreadedParts

THREADS = Host("reference-threads", ThreadedParts())


@THREADS.bug("ended-thread-loses-log", "mmtk/mmtk-core 1047", ("heap",), 5)
class EndedThreadLosesLog(LoggingBarrier):
    """What a thread has recorded is dropped when it ends before the next collection."""

    def end(self, thread: int) -> None:
        self.run(0)
        del self.logs[thread]  # Correct: the first thread takes over its log.


@THREADS.bug("ended-thread-loses-cards", "our own", ("heap",), 6)
class EndedThreadLosesCards(LoggingBarrier):
    """Of a thread that ends, the remembered objects are kept, and not the arrays with cards."""

    def end(self, thread: int) -> None:
        self.run(0)
        self.remembered += self.logs.pop(thread).remembered  # Correct: `dirty_arrays`, too.


@THREADS.bug("collection-sees-one-log", "our own", ("heap",), 4)
class CollectionSeesOneLog(LoggingBarrier):
    """A minor collection looks at what the thread that collects has recorded, and at no other."""

    def take_over(self) -> None:
        """Correct: all logs are taken over."""
