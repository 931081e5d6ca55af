"""Every CUDA kernel source that the backend can load. `distprove kernels` lists them and the tests compile them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np

from kernels.cuda.backend import CudaBackend
from kernels.cuda.device import Device
from kernels.cuda.field import FIELD_PARAMS, field_source
from kernels.cuda.goldilocks.compiled_rules import compiled_source
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.goldilocks.lde import LdeProfile
from kernels.cuda.goldilocks.leaves import LEAVES
from kernels.cuda.goldilocks.multilinear import BLOCKS, STEPS
from kernels.cuda.goldilocks.rule_code import PIECE, RuleCode
from kernels.cuda.goldilocks.rules import RULES
from kernels.cuda.goldilocks.tree import POSEIDON2, POSEIDON2_BN254
from kernels.cuda.ntt import LARGER
from kernels.cuda.openvm.kernels import SOURCES as OPENVM
from kernels.cuda.points import group_source
from kernels.cuda.sparse import CSR
from kernels.cuda.vectors import WORDS
from kernels.interface.row_program import Op, RowProgram
from kernels.interface.row_source import SAMPLE, RowSource
from kernels.maths.curves import CURVES, Group
from kernels.source import KernelSource

POINTS = ("points", "fixed_base", "sparse_points")
"""Sources of operations on points that no proof takes."""


class _Recorder:
    """Stands in for a device and records the sources that it is told to prepare."""

    traffic = empty = None

    def __init__(self) -> None:
        self.sources: list[KernelSource] = []

    def prepare(self, source: KernelSource) -> None:
        self.sources.append(source)


def all_sources() -> list[KernelSource]:
    """Return the sources for every field, curve and group, as the profiles in use compile them, each once.

    Row programs, rules of tables and row functions are known only at run time; a sample stands for each.
    """
    recorder = _Recorder()
    backend = CudaBackend(cast(Device, recorder))
    for curve in CURVES:
        backend.prepare(curve)
        backend.inner_products.prepare(curve)
    goldilocks = goldilocks_sources([sample_program()], [SAMPLE])
    rules = compiled_source(RuleCode(sample_program(), [0], PIECE))
    sources = [
        WORDS,
        CSR,
        *recorder.sources,
        *goldilocks,
        *LdeProfile().sources.values(),
        *OPENVM,
        POSEIDON2,
        POSEIDON2_BN254,
        STEPS,
        BLOCKS,
        RULES,
        LEAVES,
        rules,
        *(field_source(n, f) for n in ("vector", "invert") for f in FIELD_PARAMS),
    ]
    sources += [profile.source(curve.fr) for profile in LARGER for curve in CURVES]
    sources += [field_source("synthesis", curve.fr) for curve in CURVES]
    sources += [group_source(name, c, g) for name in POINTS for c in CURVES for g in Group]
    return list(dict.fromkeys(sources))


def goldilocks_sources(programs: Iterable[RowProgram], functions: Iterable[RowSource]) -> list[KernelSource]:
    """Return the sources of the Goldilocks kernels, these row programs and these row functions, each once."""
    recorder = _Recorder()
    CudaGoldilocks(cast(Device, recorder)).prepare(programs, functions)
    return list(dict.fromkeys(recorder.sources))


def sample_program() -> RowProgram:
    """Return a small row program that has every instruction and folds x (y - 3) + public and z x - y.

    x is column 0 of this row, y column 0 of the next, and z a challenge.
    """
    code = [
        (Op.LOAD, 0, 0, 0),
        (Op.LOAD, 0, 0, 1),
        (Op.CONST, 0, 0, 0),
        (Op.SUB, 1, 2, 0),
        (Op.MUL, 0, 3, 0),
        (Op.BASE_SCALAR, 0, 0, 0),
        (Op.ADD, 4, 5, 0),
        (Op.SCALAR, 1, 0, 0),
        (Op.MUL, 7, 0, 0),
        (Op.SUB, 8, 1, 0),
    ]
    return RowProgram((1,), np.array(code, dtype=np.int32), (3,), 4, (6, 9), fold=2)
