"""An interpreter with registers, and two programs for it: a sieve and Fibonacci.

Every value is a boxed integer or an array in the heap, and every frame is in the heap too, as in an
interpreter of a dynamic language. Invariant: between two instructions the interpreter has three
roots, from which everything that the program can reach is reachable.

    frame       a node: the index of the call, the caller's frame or null, the registers
    registers   an array for each call, of values or null; the first one is the argument
    output      nodes, the newest first: a number, its text, the one before; the last is empty
"""

from typing import TypeAlias

from gcmodel.collector.heap import Heap
from gcmodel.workloads.scopes import Scope, assign, copied, newest

SIEVE_LIMIT = 15_000
FIBONACCI_OF = 21
REGISTERS = 6

SIEVE = """
    # Register 0: the limit, 1: what is crossed out, 2: the candidate, 3: its multiple, 4: one.
            array       1 0
            put         2 2
            put         4 1
    next:   less        5 2 0
            unless      5 done
            item        5 1 2
            when        5 skip
            write       2
            multiply    3 2 2
    cross:  less        5 3 0
            unless      5 skip
            set_item    1 3 4
            add         3 3 2
            jump        cross
    skip:   add         2 2 4
            jump        next
    done:   leave       2
"""

FIBONACCI = """
    # Register 0: the argument. An instruction's first register is where its result goes.
            call        1 fib 0
            write       1
            leave       1
    fib:    put         1 2
            less        2 0 1
            when        2 small
            subtract    2 0 1
            call        2 fib 2
            put         1 1
            subtract    3 0 1
            call        3 fib 3
            add         2 2 3
            leave       2
    small:  leave       0
"""

Instruction: TypeAlias = tuple[str, tuple[int, ...]]
"""The name of an `Interpreter`'s method, and its arguments: registers, numbers, instructions."""


def run(
    heap: Heap, sieve_limit: int = SIEVE_LIMIT, fibonacci_of: int = FIBONACCI_OF
) -> tuple[list[int], int]:
    """The primes below a limit, and the Fibonacci number (0, 1, 1, 2, 3 ...) of an index."""
    return run_program(heap, SIEVE, sieve_limit), run_program(heap, FIBONACCI, fibonacci_of)[0]


def run_program(heap: Heap, source: str, argument: int) -> list[int]:
    """Run a program with `argument` in register 0; return the numbers that it writes."""
    with Scope(heap):
        interpreter = Interpreter(heap, assemble(source), argument)
        interpreter.execute()
        return interpreter.written()


def assemble(source: str) -> list[Instruction]:
    """The instructions of a program. Raises KeyError for an unknown label."""
    labels: dict[str, int] = {}
    lines: list[list[str]] = []
    for line in source.splitlines():
        label, colon, rest = line.partition("#")[0].rpartition(":")
        if colon:
            labels[label.strip()] = len(lines)
        if words := rest.split():
            lines.append(words)
    return [
        (operation, tuple(int(each) if each.isdecimal() else labels[each] for each in operands))
        for operation, *operands in lines
    ]


class Interpreter:
    """A program, its registers and its output. Its methods are the instructions.

    `_frame` and `_registers` are the slots of the current call, `_output` is that of the output,
    and `_counter` is the index of the next instruction.
    """

    def __init__(self, heap: Heap, code: list[Instruction], argument: int) -> None:
        self._heap = heap
        self._code = code
        self._counter = 0
        heap.allocate_array(REGISTERS)
        self._registers = newest(heap)
        heap.allocate_node(0)
        self._frame = newest(heap)
        heap.write(self._frame, 1, self._registers)
        heap.allocate_node(0)
        self._output = newest(heap)
        with Scope(heap):
            self.put(0, argument)

    def execute(self) -> None:
        """Run until the program leaves its outermost frame."""
        while self._counter < len(self._code):
            operation, operands = self._code[self._counter]
            self._counter += 1
            with Scope(self._heap):
                getattr(self, operation)(*operands)

    def written(self) -> list[int]:
        """All numbers that were written, the first one first."""
        numbers = []
        with Scope(self._heap):
            line = copied(self._heap, self._output)
            while self._heap.read(line, 1) is not None:
                numbers.append(self._heap.read_number(line))
                assign(self._heap, line, newest(self._heap))
        return numbers[::-1]

    # Numbers.

    def put(self, target: int, number: int) -> None:
        """Box a number. Every result of an operation is boxed here."""
        self._heap.allocate_node(number)
        self._heap.write(self._registers, target, newest(self._heap))

    def add(self, target: int, left: int, right: int) -> None:
        self.put(target, self._number(left) + self._number(right))

    def subtract(self, target: int, left: int, right: int) -> None:
        self.put(target, self._number(left) - self._number(right))

    def multiply(self, target: int, left: int, right: int) -> None:
        self.put(target, self._number(left) * self._number(right))

    def less(self, target: int, left: int, right: int) -> None:
        self.put(target, int(self._number(left) < self._number(right)))

    def write(self, source: int) -> None:
        """Append a register's number, and its decimal text, to the output."""
        heap, number = self._heap, self._number(source)
        heap.allocate_node(number)
        line = newest(heap)
        heap.allocate_string(len(str(number)))
        heap.write(line, 0, newest(heap))
        heap.write(line, 1, self._output)
        assign(heap, self._output, line)

    # Arrays. An item that was never set is null, which is false.

    def array(self, target: int, length: int) -> None:
        self._heap.allocate_array(self._number(length))
        self._heap.write(self._registers, target, newest(self._heap))

    def item(self, target: int, array: int, index: int) -> None:
        items = self._value(array)
        assert items is not None
        is_null = self._heap.read(items, self._number(index)) is None
        self._heap.write(self._registers, target, None if is_null else newest(self._heap))

    def set_item(self, array: int, index: int, source: int) -> None:
        items = self._value(array)
        assert items is not None
        self._heap.write(items, self._number(index), self._value(source))

    # Control flow.

    def jump(self, target: int) -> None:
        self._counter = target

    def when(self, condition: int, target: int) -> None:
        """Jump if a register is true."""
        if self._is_true(condition):
            self._counter = target

    def unless(self, condition: int, target: int) -> None:
        """Jump if a register is false."""
        if not self._is_true(condition):
            self._counter = target

    def call(self, target: int, function: int, argument: int) -> None:
        """Enter a function, with a frame and registers of its own."""
        heap, value = self._heap, self._value(argument)
        heap.allocate_array(REGISTERS)
        registers = newest(heap)
        heap.write(registers, 0, value)
        heap.allocate_node(self._counter - 1)
        frame = newest(heap)
        heap.write(frame, 0, self._frame)
        heap.write(frame, 1, registers)
        assign(heap, self._frame, frame)
        assign(heap, self._registers, registers)
        self._counter = function

    def leave(self, source: int) -> None:
        """Return a register's value to the call, whose first operand is its target."""
        heap, value = self._heap, self._value(source)
        caller_at = heap.read_number(self._frame)
        if heap.read(self._frame, 0) is None:
            self._counter = len(self._code)
            return
        assign(heap, self._frame, newest(heap))
        heap.read(self._frame, 1)
        assign(heap, self._registers, newest(heap))
        heap.write(self._registers, self._code[caller_at][1][0], value)
        self._counter = caller_at + 1

    # Registers.

    def _value(self, register: int) -> int | None:
        """The slot of a register's object, or None."""
        return None if self._heap.read(self._registers, register) is None else newest(self._heap)

    def _number(self, register: int) -> int:
        value = self._value(register)
        assert value is not None
        return self._heap.read_number(value)

    def _is_true(self, register: int) -> bool:
        value = self._value(register)
        return value is not None and self._heap.read_number(value) != 0
