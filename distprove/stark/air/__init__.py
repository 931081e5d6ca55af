"""AIRs in Python: what authors write, and what the prover, the verifier and the verifying key are given of it."""

from __future__ import annotations

from distprove.stark.air.compiled import BusUse, CompiledAir, Group
from distprove.stark.air.compiler import compile_air
from distprove.stark.air.definition import Air, Bus, Table, trace_air
from distprove.stark.air.expression import Expression
from distprove.stark.air.point import evaluate_at_point

__all__ = [
    "Air",
    "Bus",
    "BusUse",
    "CompiledAir",
    "Expression",
    "Group",
    "Table",
    "compile_air",
    "evaluate_at_point",
    "trace_air",
]
