"""The instructions of the interpreter in `cuda/src/openvm_rules.cu`.

An instruction takes a value x, may compute another one from x and y, which is an operand or the next load, and may add
the result to a form. Decoding costs as much as several products, so one instruction does as much of this as it can.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kernels.errors import SizeError

ADD, SUB, MUL, NONE = range(4)
"""What is computed from x and y, NONE for x or a load. Must equal those in openvm_rules.cu, as all bits below."""
LOADS, ACCUMULATES = 1 << 2, 1 << 3
"""Flags: y is the next load, and its operand says whether SUB is y - x; the result is added to the form, and the place
of its slot names the term."""
EMIT = NONE
"""Ends the form that operand y names."""
CONSTANT, FAR = 1 << 18, 1 << 19
"""What an operand is, if it is no near slot."""
LAST = CONSTANT | FAR
"""The value of the instruction before, as an operand: dearer as y than as x. As the place of a result: no slot keeps
it."""
MOST = 1 << 18
"""Bound of the numbers of an operand."""
MOST_TERMS = 1 << 20

LONG, RESERVED = 48, 4
"""A value that waits for more instructions than LONG goes to a far slot, unless more than 1 / RESERVED of the near ones
are free."""


class StepKind(IntEnum):
    """What a step does with its operands a and b."""

    ADD = ADD
    SUB = SUB
    MUL = MUL
    LOAD = 4
    """Takes the next load."""
    ACCUMULATE = 5
    """Adds a to the form, times the coefficient of term b."""
    EMIT = 6
    """Ends the form b."""


class Step(NamedTuple):
    """A step of a piece of code. An operand is a node, or the complement of a constant's number."""

    kind: StepKind
    node: int
    """The node of the result, -1 without one."""
    a: int = -1
    b: int = -1

    @property
    def operands(self) -> tuple[int, ...]:
        """The operands that are values."""
        if self.kind <= StepKind.MUL:
            return self.a, self.b
        return (self.a,) if self.kind == StepKind.ACCUMULATE else ()


@dataclass(frozen=True)
class Encoded:
    """The instructions of a piece."""

    words: list[int]
    near: int
    """Near slots in use."""
    far: int


class _Instruction(NamedTuple):
    operation: int
    """The computation and its flags."""
    node: int
    """The node of the value that is the last one from now on."""
    x: int | None = None
    """None for a load that nothing is computed from."""
    y: int | None = None
    """None without one, or if it is loaded."""
    term: int = -1
    """The term to which the value is added, or the form that ends."""
    backwards: bool = False
    """Whether x is taken from a load."""

    @property
    def only_adds(self) -> bool:
        """Whether it computes no value."""
        return self.operation == NONE | ACCUMULATES


def encoded(steps: Sequence[Step], most_near: int) -> Encoded:
    """Encode the steps of a piece, with at most `most_near` near slots.

    Raises SizeError for numbers that no instruction can name.
    """
    instructions = _fused(steps)
    reads = [tuple(node for node in (each.x, each.y) if node is not None and node >= 0) for each in instructions]
    final = {node: i for i, nodes in enumerate(reads) for node in nodes}
    """The last instruction that reads each node."""
    followed = _followed(instructions)
    free: tuple[list[int], list[int]] = [], []
    used, slots, words, newest = [0, 0], dict[int, int](), list[int](), -1

    def operand(node: int | None) -> int:
        if node is None:
            return LAST
        return CONSTANT | _below(~node) if node < 0 else LAST if node == newest else slots[node]

    for i, each in enumerate(instructions):
        if each.operation == EMIT:
            words.append(EMIT | _below(each.term) << 24)
            continue
        x, y = operand(each.x), int(each.backwards) if each.operation & LOADS else operand(each.y)
        if y == LAST and each.operation & NONE in (ADD, MUL):
            x, y = y, x
        for node in {*reads[i]}:
            if final[node] == i and (where := slots.pop(node)) != LAST:
                heapq.heappush(free[where >= FAR], where % FAR)
        newest, place = each.node, LAST
        if each.operation & ACCUMULATES:
            place = each.term
        elif final[each.node] <= followed[i]:
            slots[each.node] = LAST
        else:
            left_over = most_near - used[0] + len(free[0])
            far = left_over <= (most_near // RESERVED if final[each.node] - i > LONG else 0)
            if not free[far]:
                heapq.heappush(free[far], used[far])
                used[far] += 1
            place = slots[each.node] = _below(heapq.heappop(free[far])) | (FAR if far else 0)
        words.append(each.operation | x << 4 | y << 24 | place << 44)
    return Encoded(words, *used)


def _fused(steps: Sequence[Step]) -> list[_Instruction]:
    """Join a load and the step behind it, and a value and its addition to a form, if nothing else reads them."""
    uses = Counter(node for step in steps for node in step.operands)
    found, at = list[_Instruction](), 0

    def single(node: int) -> Step | None:
        """The next step, if it alone reads the node."""
        following = steps[at] if at < len(steps) else None
        return following if following and uses[node] == 1 and node in following.operands else None

    while at < len(steps):
        step, at = steps[at], at + 1
        if step.kind == StepKind.EMIT:
            found.append(_Instruction(EMIT, -1, term=step.b))
            continue
        if step.kind == StepKind.ACCUMULATE:
            found.append(_Instruction(NONE | ACCUMULATES, step.a, step.a, term=step.b))
            continue
        made = _Instruction(NONE | LOADS, step.node)
        if step.kind != StepKind.LOAD:
            made = _Instruction(int(step.kind), step.node, step.a, step.b)
        elif (then := single(step.node)) and then.kind != StepKind.ACCUMULATE:
            at += 1
            loaded_first = then.a == step.node
            other, backwards = then.b if loaded_first else then.a, loaded_first and then.kind == StepKind.SUB
            made = _Instruction(then.kind | LOADS, then.node, other, backwards=backwards)
        if (then := single(made.node)) and then.kind == StepKind.ACCUMULATE:
            at += 1
            made = made._replace(operation=made.operation | ACCUMULATES, term=then.b)
        found.append(made)
    return found


def _followed(instructions: Sequence[_Instruction]) -> list[int]:
    """For each instruction the first one behind it with another value, which can still read this one as the last."""
    found, value, end = [0] * len(instructions), -1, len(instructions)
    for i in range(len(instructions) - 1, -1, -1):
        each = instructions[i]
        if each.operation == EMIT:
            continue
        # Instructions that add the same value leave it the last one.
        found[i] = found[value] if value >= 0 and _keeps(instructions[value], each.node) else end
        value = end = i
    return found


def _keeps(following: _Instruction, node: int) -> bool:
    return following.only_adds and following.node == node


def _below(number: int) -> int:
    if number >= MOST:
        raise SizeError("a graph of more values than the interpreter's instructions can name")
    return number
