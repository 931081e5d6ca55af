"""AIRs in Python: how authors write them, and the compiled form for the prover, the verifier and the verifying key."""

from __future__ import annotations

from distprove.stark.air.compiled import CompiledAir
from distprove.stark.air.cpp_rows import CppRows
from distprove.stark.air.definition import Air, Bus, Table, trace_air
from distprove.stark.air.expression import Expression, total
from distprove.stark.air.report import AirReport, report_airs

__all__ = [
    "Air",
    "AirReport",
    "Bus",
    "CompiledAir",
    "CppRows",
    "Expression",
    "Table",
    "report_airs",
    "total",
    "trace_air",
]
