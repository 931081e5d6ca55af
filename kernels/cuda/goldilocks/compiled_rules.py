"""Rules of one table as straight-line code, in place of the interpreter's loop, for tables of many rows."""

from __future__ import annotations

import hashlib

from kernels.cuda.goldilocks.rule_code import ACCUMULATE, ADD, CELL, CONSTANT, EMIT, MUL, SUB, RuleCode
from kernels.source import KernelSource

_NAMES = {ADD: "add", SUB: "sub", MUL: "mul"}
_NUMBER = (1 << 18) - 1
"""The bits of an operand that are its number."""


def compiled_source(code: RuleCode) -> KernelSource:
    """The kernel `rules_on_cosets` of `multilinear_rules.cu` for one program."""
    lines = [line for word in code.code.tolist() for line in _lines(word)]
    slots = ", ".join(f"s{number}" for number in range(code.slots))
    text = "\n".join(
        (
            "#define DP_COMPILED",
            '#include "rule_cells.h"',
            "using namespace dp;",
            "using namespace dp::gl;",
            "template <class Cells, class Emit>",
            "__device__ __forceinline__ void run(const Code& program, const Cells& cells, u64*, const Emit& emit) {",
            "  typename Cells::Sum sum;",
            f"  typename Cells::Value {slots};",
            *(f"  {line}" for line in lines),
            "}",
            '#include "multilinear_rules.cu"',
            "",
        )
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return KernelSource(f"compiled_rules_{digest}", text=text)


def _lines(word: int) -> list[str]:
    """An instruction as statements."""
    operation, a, b, slot = word & 15, word >> 4 & 0xFFFFF, word >> 24 & 0xFFFFF, word >> 44
    if operation == EMIT:
        return [f"emit({b & _NUMBER}, sum.value());", "sum = typename Cells::Sum();"]
    if operation == ACCUMULATE:
        return [f"sum.add(coefficient(program, {b}), {_operand(a)});"]
    if operation == MUL and CONSTANT in (_kind(a), _kind(b)):  # a base element, whatever cells are
        constant, other = (a, b) if _kind(a) == CONSTANT else (b, a)
        return [f"s{slot} = mul({_operand(other)}, __ldg(program.constants + {constant & _NUMBER}));"]
    return [f"s{slot} = {_NAMES[operation]}({_operand(a)}, {_operand(b)});"]


def _kind(operand: int) -> int:
    return operand & ~_NUMBER


def _operand(operand: int) -> str:
    number = operand & _NUMBER
    if _kind(operand) == CELL:
        return f"cells.cell({number})"
    return f"constant<Cells>(program, {number})" if _kind(operand) == CONSTANT else f"s{number}"
