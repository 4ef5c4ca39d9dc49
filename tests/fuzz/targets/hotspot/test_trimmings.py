"""What is around the parts of a program is in its class file, as javap of a JDK shows it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping

import attrs
import pytest
from waiting import completed

from fuzz.protocol import actions as do
from fuzz.targets.hotspot.assembler import assembled_class
from fuzz.targets.hotspot.trace_method import (
    CALLS,
    LINE_OF_FIRST,
    LINE_OF_TRAP,
    PART_STARTS,
    TRIMMINGS,
    TraceMethod,
)

pytestmark = pytest.mark.slow
TRACE = [do.AllocateNode(each) for each in range(PART_STARTS[-1] + 5)]
NOTHING = {"string_item_bytes": 1, "rounds_inside": 0, **dict.fromkeys((*TRIMMINGS, CALLS), 0)}
AROUND = (*TRIMMINGS, CALLS)
PARTS = range(1, len(PART_STARTS) + 1)
INSTRUCTION = re.compile(r" +(\d+): (\w+)(?: +(.*))?")
LINE = re.compile(r" +line (\d+): (\d+)")
HANDLER = re.compile(r" +(\d+) +(\d+) +(\d+) +any")
OWNER = "gcfuzz/Answers."


@attrs.frozen
class Method:
    """The instructions of `run`: where each is, its name, and what javap says about it."""

    instructions: list[tuple[int, str, str]]
    lines: list[tuple[int, int]]
    handlers: list[tuple[int, int, int]]

    def places(self, name: str, what: str = "") -> list[int]:
        """The places of an instruction that refers to something."""
        return [at for at, each, said in self.instructions if each == name and what in said]

    def after(self, place: int) -> tuple[int, str, int]:
        """The instruction behind a place, and where it jumps to."""
        at, name, said = next(each for each in self.instructions if each[0] > place)
        return at, name, int(said.split()[0])

    def actions_in(self, start: int, end: int) -> list[int]:
        """The actions whose code is there."""
        numbers = ((line - LINE_OF_FIRST, at) for line, at in self.lines)
        return [
            number for number, at in numbers if number in range(len(TRACE)) and start <= at < end
        ]


def method_in(text: str) -> Method:
    instructions = [(int(at), name, said or "") for at, name, said in INSTRUCTION.findall(text)]
    lines = [(int(line), int(at)) for line, at in LINE.findall(text)]
    handlers = [(int(start), int(end), int(at)) for start, end, at in HANDLER.findall(text)]
    return Method(instructions, lines, handlers)


# Where each begins and ends, if it is there.


def _loop(method: Method) -> Iterator[tuple[int, int]]:
    for at, name, said in method.instructions:
        if name == "goto" and int(said) < at:
            is_counted = method.places("getstatic", f"{OWNER}round:")
            yield (int(said), at if is_counted else 0)


def _branch(method: Method) -> Iterator[tuple[int, int]]:
    for at in method.places("getstatic", f"{OWNER}taken"):
        _, name, end = method.after(at)
        yield at, end if name == "ifeq" else 0


def _catching(method: Method) -> Iterator[tuple[int, int]]:
    for start, end, handler in method.handlers:
        [thrown, *_] = method.places("getstatic", f"{OWNER}thrown")
        if start < thrown < end <= handler and method.places("athrow"):
            yield start, end


def _locked(method: Method) -> Iterator[tuple[int, int]]:
    for enter in method.places("monitorenter"):
        first, second = method.places("monitorexit")
        [(start, end, handler)] = method.handlers
        if enter < start < end < first < second and end < handler < second:
            yield start, end


def _trap(method: Method) -> Iterator[tuple[int, int]]:
    """Up to the next trimming, which is none: the end of the part's actions is not its own."""
    starts = [at for line, at in method.lines if line == LINE_OF_TRAP]
    for start in starts:
        _, name, end = method.after(*method.places("getstatic", f"{OWNER}rare"))
        escapes = method.places("invokestatic", f"{OWNER}escape")
        if name == "ifeq" and escapes and all(start < each < end for each in escapes):
            yield end, end + 1


def _calls(method: Method) -> Iterator[tuple[int, int]]:
    places = method.places("invokestatic", f"{OWNER}call:")
    numbers = [max(method.actions_in(0, at)) for at in places]
    if numbers:
        starts = {line - LINE_OF_FIRST: at for line, at in method.lines}
        is_each = numbers == [*range(numbers[0], numbers[-1] + 1)]
        yield starts[numbers[0]], places[-1] if is_each else 0


def _weak(method: Method) -> Iterator[tuple[int, int]]:
    ends = method.places("invokevirtual", "java/lang/ref/WeakReference.get")
    for start, end in zip(method.places("new", "WeakReference"), ends, strict=False):
        compared = [at for at in method.places("if_acmpeq") if at > end]
        yield start, end if compared else 0


FOUND: Mapping[str, Callable[[Method], Iterator[tuple[int, int]]]] = {
    "loop": _loop,
    "branch": _branch,
    "catching": _catching,
    "locked": _locked,
    "trap": _trap,
    CALLS: _calls,
    "weak": _weak,
}


def part_around(method: Method, name: str) -> int | None:
    """The part that has the trimming; None if no part has it whole."""
    for start, end in FOUND[name](method):
        numbers = method.actions_in(start, end)
        for part, first in enumerate(PART_STARTS, 1):
            last = (*PART_STARTS, len(TRACE))[part] - 1
            if numbers == ([first] if name == "trap" else [*range(first, last + 1)]):
                return part
    return None


class Forgetful(TraceMethod):
    """Nothing is around a part."""

    def _trimmed(self, part: int) -> list[str]:
        self._settings = {**self._settings, **dict.fromkeys(AROUND, 0)}
        return super()._trimmed(part)


def code_of(kind: type[TraceMethod], **settings: int) -> str:
    return kind(TRACE, {**NOTHING, **settings}).code


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Method]:
    """A method for each trimming and part, in one class, since javap is slow."""
    if shutil.which("javap") is None:
        pytest.skip("apt install openjdk-17-jdk-headless")
    code = {
        f"{name}{part}": code_of(TraceMethod, **{name: part}) for name in AROUND for part in PARTS
    }
    code |= {f"{name}LeftOut": code_of(Forgetful, **{name: 2}) for name in AROUND}
    code |= {"plain": code_of(TraceMethod), "inside": code_of(TraceMethod, rounds_inside=1)}
    members = TraceMethod(TRACE, NOTHING).members
    data = assembled_class("Programs", {}, dict.fromkeys(code, "()V"), code, members)
    path = tmp_path_factory.mktemp("classes") / "Programs.class"
    path.write_bytes(data)
    methods = completed(["javap", "-c", "-l", path]).stdout.split("public static void ")[1:]
    return {each.split("(", 1)[0]: method_in(each) for each in methods}


@pytest.mark.parametrize("name", AROUND)
def test_each_trimming_is_around_its_part(name: str, shown: Mapping[str, Method]) -> None:
    assert [part_around(shown[f"{name}{part}"], name) for part in PARTS] == [*PARTS]


@pytest.mark.parametrize("part", PARTS)
def test_the_actions_of_one_part_have_the_lock(part: int) -> None:
    method = TraceMethod(TRACE, {**NOTHING, "locked": part})
    start, end = (*PART_STARTS, len(TRACE))[part - 1 : part + 1]
    locked = [number for number in range(len(TRACE) + 1) if method.is_locked(number)]
    assert locked == [*range(start, end)]


@pytest.mark.parametrize("name", AROUND)
def test_no_other_trimming_is_there(name: str, shown: Mapping[str, Method]) -> None:
    for other in AROUND:
        if other != name:
            assert part_around(shown[f"{other}1"], name) is None
    assert part_around(shown["plain"], name) is None


@pytest.mark.parametrize("name", AROUND)
def test_a_trimming_that_is_left_out_is_found(name: str, shown: Mapping[str, Method]) -> None:
    assert part_around(shown[f"{name}LeftOut"], name) is None


def test_rounds_inside_the_method_are_a_loop(shown: Mapping[str, Method]) -> None:
    for name, is_there in (("inside", True), ("plain", False)):
        again = shown[name].places("invokestatic", "gcfuzz/Driver.again")
        assert bool(again) == is_there
        for place in again:
            _, jump, start = shown[name].after(place)
            assert (jump, shown[name].actions_in(start, place)) == ("ifne", [*range(len(TRACE))])
