"""Traces of calls whose operands pass the end of memory, behind which the tables' keys are those of registers."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType

import numpy as np

from distprove.stark.riscv.record import FIRST_REGISTER
from tests.support.riscv_oracle import Interpreter
from tests.support.riscv_traces import Executed, Job, job_of

END = 1 << 32


def beyond_memory(interpreter: Interpreter) -> Job:
    """Run it to its exit with calls that take such operands, and give the traces. An operand must reach a register."""
    touch = interpreter.touch

    def operand(self: Interpreter, address: int, count: int) -> list[int]:
        return [self.words.get(address // 4 + k, 0) for k in range(count)]

    def wrapped(
        self: Interpreter, address: int, slot: int, before: Sequence[int], after: Sequence[int] | None = None
    ) -> None:
        start = len(self.now.accesses)
        touch(address, slot, before, after)
        self.now.accesses[start:] = [(at % END, *rest) for at, *rest in self.now.accesses[start:]]  # type: ignore[misc]

    interpreter.operand = MethodType(operand, interpreter)  # type: ignore[method-assign]
    interpreter.touch = MethodType(wrapped, interpreter)  # type: ignore[method-assign]
    interpreter.run(1 << 10)
    job = job_of(Executed(interpreter.image, interpreter.records))
    keys = job.column("keccak_words", "key")
    beyond = (job.column("keccak_words", "on") == 1) & (keys < 1024)
    assert beyond.any()
    keys[beyond] += np.uint64(FIRST_REGISTER)
    return job
