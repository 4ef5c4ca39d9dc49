"""Lines to a program and back: neither side waits for the other forever."""

import sys

import pytest

from fuzz.targets.process.conversation import BrokenConversationError, Conversation
from fuzz.targets.process.last_words import most_important_line

SECONDS = 600.0


def python(script: str) -> tuple[str, ...]:
    return sys.executable, "-E", "-S", "-c", script


def test_a_line_is_returned_unchanged() -> None:
    conversation = Conversation(("cat",), SECONDS)
    conversation.send('{"do": "nothing"}')
    assert conversation.receive() == b'{"do": "nothing"}'


def test_more_than_a_pipe_holds_is_sent_and_received() -> None:
    conversation = Conversation(("cat",), SECONDS)
    lines = [letter * 300_000 for letter in "abc"]
    for line in lines:
        conversation.send(line)
    assert [conversation.receive().decode() for _ in lines] == lines


def test_a_program_that_reads_late_receives_everything() -> None:
    script = "import time, sys; time.sleep(0.3); print(len(sys.stdin.readline()))"
    conversation = Conversation(python(script), SECONDS)
    conversation.send("x" * 300_000)
    assert conversation.receive() == b"300001"


def test_the_end_of_a_program_that_reads_nothing_is_noticed() -> None:
    conversation = Conversation(python("raise SystemExit(7)"), SECONDS)
    conversation.send("x" * 300_000)
    with pytest.raises(BrokenConversationError, match="crash exit code 7"):
        conversation.receive()


def test_answers_before_the_end_are_received_first() -> None:
    conversation = Conversation(python("print('one\\ntwo'); raise SystemExit(7)"), SECONDS)
    assert [conversation.receive(), conversation.receive()] == [b"one", b"two"]
    with pytest.raises(BrokenConversationError, match="crash exit code 7"):
        conversation.receive()


def test_an_error_has_the_last_line_of_standard_error() -> None:
    script = "import sys; sys.stderr.write('x' * 300_000 + '\\nthe end\\n'); raise SystemExit(7)"
    with pytest.raises(BrokenConversationError, match="crash exit code 7: the end"):
        Conversation(python(script), SECONDS).receive()


JAVAS_REPORT = """
#
# A fatal error has been detected by the Java Runtime Environment:
#
#  {what}, pid=12, tid=13
{more}
# JRE version: 25
{frame}
END.
"""
FRAME = "# Problematic frame:\n# V  [libjvm.so+0x4b1]  Heap::mark()+0x2"


@pytest.mark.parametrize(
    ("what", "more", "frame", "words"),
    [
        ("SIGSEGV (0xb) at pc=0x7f", "#", FRAME, "V  [libjvm.so+…]  Heap::mark()+…"),
        ("Internal Error (a.cpp:9)", "#  guarantee(x) failed", "#", "#  guarantee(x) failed"),
        ("Out of Memory Error (os.cpp:3)", "#", "#", "#  Out of Memory Error (os.cpp:3)……"),
    ],
)
def test_an_error_of_a_java_machine_has_the_cause_of_its_crash(
    what: str, more: str, frame: str, words: str
) -> None:
    report = JAVAS_REPORT.format(what=what, more=more, frame=frame)
    script = f"import sys; sys.stderr.write({report!r}); raise SystemExit(7)"
    conversation = Conversation(python(script), SECONDS)
    with pytest.raises(BrokenConversationError) as broken:
        conversation.receive()
    assert str(broken.value) == f"crash exit code 7: {words}"
    assert conversation.complaint == report


RUBY = """driver.rb:7: [BUG] Segmentation fault at 0x0000000000000008
ruby 3.3.0 (2023-12-25) [x86_64-linux]

-- Control frame information ---
c:0001 p:0000 s:0003 E:000b70 DUMMY [FINISH]
7f2a00000000-7f2a00021000 r--p 00000000 08:01 131 /lib/libc.so.6
"""
GO = """started
panic: bad pointer in the Go heap

goroutine 1 [running]:
main.main()
exit status 2
"""
CPYTHON = """Traceback (most recent call last):
  File "a.py", line 2, in read
    raise KeyError("the index has an error")
KeyError: 'the index has an error'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
    raise ValueError("no object 7")
ValueError: no object 7
"""


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (RUBY, "driver.rb:7: [BUG] Segmentation fault at …"),
        (GO, "panic: bad pointer in the Go heap"),
        (CPYTHON, "ValueError: no object 7"),
        (
            "heap.c:9: mark: Assertion `obj' failed.\nAborted\n",
            "heap.c:9: mark: Assertion `obj' fai",
        ),
        ("started\n0 errors\nthe end\n", "the end"),
    ],
    ids=["Ruby", "Go", "Python", "C", "without an error"],
)
def test_the_line_of_a_crash_is_the_first_that_looks_like_an_error(written: str, line: str) -> None:
    assert most_important_line(written).startswith(line)


def test_an_unknown_signal_has_its_number() -> None:
    script = "import os; os.kill(os.getpid(), 40)"
    with pytest.raises(BrokenConversationError, match=r"crash signal 40|crash SIGRTMIN"):
        Conversation(python(script), SECONDS).receive()
