"""Verifying keys whose instructions each use the one before: nothing in them can be computed together."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernels.interface.row_program import Op


def chained(key: dict[str, Any], instructions: int) -> dict[str, Any]:
    """A key's record with so many more instructions of sums, differences and multiples, on which an output depends."""
    record = copy.deepcopy(key)
    program = record["tables"][0]["constraints"]
    code = np.frombuffer(program["code"], "<i4").reshape(-1, 4)
    number = np.arange(instructions)
    more = np.zeros((instructions, 4), "<i4")
    more[:, 0] = np.array([Op.ADD, Op.SUB, Op.MUL])[number % 3]
    more[:, 1] = len(code) + number - 1
    more[:, 2] = len(code) - 1 + number // 2
    more[number % 3 == 2, 2] = np.flatnonzero(code[:, 0] == Op.BASE_SCALAR)[0]  # of degree 0
    outputs = np.frombuffer(program["outputs"], "<i4").copy()
    outputs[-1] = len(code) + instructions - 1
    program["code"], program["outputs"] = code.tobytes() + more.tobytes(), outputs.tobytes()
    return record
