"""The predicted device memory of OpenVM's proofs: what provers take on a device that computes nothing, what they took
on a GPU, and what becomes of proofs for which there is no room."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from distprove.measure.openvm_segments import AirShape, Segment, key_of, log_stacked, read_profile, scaled
from distprove.options import InputFile
from distprove.stark.openvm.memory import key_bytes, planned, stages, trace_bytes
from distprove.stark.openvm.proof import TraceShape
from distprove.stark.openvm.shape import Shape
from distprove.stark.openvm.system import SwirlProver, SwirlSystem
from distprove.stark.openvm.traces import read_traces, shape_of
from distprove.stark.plan import CONSTANT_BYTES, usable
from distprove.system import Partition, Witness
from kernels.cuda.backend import CudaBackend
from kernels.errors import OutOfMemory
from kernels.maths.poseidon2_babybear import DIGEST
from tests.support import ROOT
from tests.support.dry_openvm import measured
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.openvm_golden import GOLDEN, NAMES, key_path, proof_bytes
from tests.support.openvm_golden import key_of as golden_key

EXCERPT = ROOT / "tests" / "measure" / "openvm" / "reth-excerpt.jsonl"
MEASURED = ROOT / "docs" / "results" / "h200-openvm-profile.json"
SEGMENTS = Path(__file__).parent / "block_segments.json"
"""Of the block's segments whose peaks were measured: log2 of rows, columns and interactions of each AIR."""

NO_ROOTS = np.zeros((0, DIGEST), dtype=np.uint32)
STEPS = {"bind": "constraints.bind", "rounds": "constraints.rounds"}
"""The steps whose names have a part before."""


def _shape(segment: Segment, log_rows: int) -> Shape:
    return Shape.of(key_of(segment, log_rows), [TraceShape(height, NO_ROOTS) for _, height in segment.airs])


@pytest.mark.parametrize(
    ("place", "log_factor", "largest"),
    [(1, 0, "buses"), (2, 0, "opening"), (0, -4, "main_stack"), (1, -5, "buses"), (2, -9, "opening")],
)
def test_each_step_takes_what_is_predicted(place: int, log_factor: int, largest: str) -> None:
    """Of segments of a block in their own size, and smaller: no array is forgotten, and none is counted twice."""
    segment = scaled(read_profile(EXCERPT)[place], log_factor)
    shape = _shape(segment, log_stacked(log_factor))
    taken, predicted = measured(shape.key, [height for _, height in segment.airs]), stages(shape)
    assert max(predicted, key=lambda name: predicted[name]) == largest
    for name, expected in predicted.items():
        assert expected == pytest.approx(taken[STEPS.get(name, name)], rel=1e-3, abs=3 << 20), name
    assert max(taken.values()) <= planned(shape).peak <= max(taken.values()) + CONSTANT_BYTES


def test_staged_traces_are_released_once_they_are_stacked() -> None:
    """From then on they take no more than traces that nobody staged."""
    segment = scaled(read_profile(EXCERPT)[1], -6)
    shape, heights = _shape(segment, log_stacked(-6)), [height for _, height in segment.airs]
    assert trace_bytes(shape) > 20 << 20
    alone, staged = measured(shape.key, heights), measured(shape.key, heights, staged=True)
    del alone["load"], staged["load"]
    assert staged == alone


def test_what_an_h200_took_is_predicted() -> None:
    """For the segments of a block whose peaks were noted, the largest among them."""
    rows = {row["facts"]["segment"]: row["facts"]["peak_bytes"] for row in json.loads(MEASURED.read_text())["rows"]}
    plans = {number: planned(shape).peak for number, shape in _block_shapes().items()}
    assert plans.keys() == rows.keys()
    for number, peak in plans.items():
        assert rows[number] <= peak <= 1.02 * rows[number]


def test_no_segment_of_a_block_takes_more_than_14_gb() -> None:
    assert max(planned(shape).peak for shape in _block_shapes().values()) <= 14 * 10**9


def _block_shapes() -> dict[int, Shape]:
    """Return the shape of each segment by number. Names, constraints and messages of AIRs do not matter."""
    shapes = {}
    for number, airs in json.loads(SEGMENTS.read_text()).items():
        own = [
            (AirShape(f"air {i}", width, 1, 1, 1, ((1, 1),) * count), height)
            for i, (height, width, count) in enumerate(airs)
        ]
        shapes[int(number)] = _shape(Segment(int(number), tuple(own)), 22)
    return shapes


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler to build the kernels for the host")
@pytest.mark.parametrize("name", NAMES)
def test_proofs_stay_below_their_plans(name: str) -> None:
    """Cached and preprocessed parts too, and traces of less than a run."""
    device = EmulatedDevice()
    traces = read_traces(GOLDEN / name / "traces.bin", golden_key(name))
    with CudaBackend(device) as backend:
        prover, partition, witness = _ready(name, backend)
        proof, times = prover.prove_partition(partition, witness)
    assert proof.data["proof"] == proof_bytes(name)
    assert times.memory is not None
    assert times.memory.peak is not None
    assert times.memory.predicted == planned(shape_of(golden_key(name), traces)).peak
    assert times.memory.peak <= times.memory.predicted


def _ready(name: str, backend: CudaBackend) -> tuple[SwirlProver, Partition, Witness]:
    system = SwirlSystem(key_path(name), [InputFile("it", GOLDEN / name / "traces.bin")])
    [partition] = system.plan()
    return system.prover({}, backend), partition, system.synthesiser({}, 1).synthesise(partition)


def test_what_no_device_holds_is_refused_before_anything_is_copied() -> None:
    device = EmulatedDevice(budget=CONSTANT_BYTES)
    with CudaBackend(device) as backend:
        prover, partition, witness = _ready("mixed", backend)
        before = device.did["upload"]
        with pytest.raises(OutOfMemory, match=r"a proof of \d+ stacked columns .* needs .* smaller segments"):
            prover.stage(partition, witness)
        assert device.did["upload"] == before
        assert device.in_staging == 0


def test_traces_are_copied_ahead_where_there_is_room_beside_a_proof() -> None:
    shape = shape_of(golden_key("mixed"), read_traces(GOLDEN / "mixed" / "traces.bin", golden_key("mixed")))
    alone = planned(shape).peak
    for room, fits in ((alone, False), (alone + trace_bytes(shape), True)):
        budget = next(size for size in range(room, 2 * room) if usable(size) >= room)
        with CudaBackend(EmulatedDevice(budget=budget)) as backend:
            prover, partition, witness = _ready("mixed", backend)
            first = prover.stage(partition, witness)
            if fits:
                prover.stage(partition, witness).release()
            else:
                with pytest.raises(OutOfMemory, match="beside a proof"):
                    prover.stage(partition, witness)
            first.release()
            prover.stage(partition, witness).release()


def test_a_key_counts_its_preprocessed_traces() -> None:
    assert key_bytes(golden_key("fibonacci")) == 0
    key = golden_key("preprocessed")
    assert SwirlSystem(key_path("preprocessed"), []).key_bytes() == key_bytes(key) > 0
