"""What holds a witness, a trace or something made from one does not show it, wherever it is printed."""

from __future__ import annotations

import numpy as np
import pytest

from actors.protocol import Timed
from distprove.filecoin.porep import ColumnProof, LabelProof
from distprove.filecoin.trees import MerklePath
from distprove.job import Job
from distprove.stark.air.check import PartitionTrace
from distprove.stark.program import Trace
from distprove.system import Partition, Witness
from kernels.cuda.goldilocks.lde import Extended
from kernels.cuda.goldilocks.tree import LeafShape
from kernels.cuda.sources import sample_program
from kernels.interface.arrays import Ready
from kernels.interface.goldilocks import DeepPoint, LdeJob, OpenedColumns, RowJob

SECRET = 918273645
ARRAY = np.full((2, 2, 2), SECRET, dtype=np.uint64)
SYNTHESISED = Witness("p", {"witness": ARRAY})


@pytest.mark.parametrize(
    "holder",
    [
        SYNTHESISED,
        Timed((SYNTHESISED, 1), 0.0, 1.0),
        Partition(0, "p", b"", {"inputs": {"age": SECRET}}),
        Job.from_options("groth16", zkey=__file__, wasm=__file__, inputs=[{"age": SECRET}]),
        MerklePath(SECRET, SECRET, SECRET, (SECRET,)),
        ColumnProof(1, (SECRET,), MerklePath(SECRET, 0, 0, ())),
        LabelProof(1, 2, (SECRET,)),
        Trace([ARRAY], ()),
        PartitionTrace([ARRAY], {}),
        LdeJob(ARRAY, out=ARRAY),
        RowJob(sample_program(), [ARRAY], np.zeros((4, 3), np.uint64)),
        DeepPoint((1, 2, 3), (ARRAY,), np.zeros((2, 3), np.uint64), (4, 5, 6)),
        OpenedColumns(ARRAY, ()),
        Extended(ARRAY, ARRAY, 7),
        LeafShape(ARRAY, 0),
        Ready(ARRAY),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_no_repr_shows_what_is_secret(holder: object) -> None:
    assert str(SECRET) not in f"{holder!r} {holder}"
