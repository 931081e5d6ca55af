"""What workers keep in a node's memory is leased before they load, and a key that does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from actors.backends import BackendChoice
from cluster.executor.fleet import kept_by
from cluster.executor.local import LocalFleet
from cluster.governor.budget import budget_of
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import ClusterError
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.wtns import write_wtns
from distprove.groth16.zkey import read_zkey
from distprove.options import InputFile
from distprove.settings import ExecutorSettings
from distprove.stark.options import StarkOptions
from distprove.stark.system import StarkSystem
from kernels.cpu.backend import CpuBackend
from kernels.cpu.sparse import CpuMatrix
from kernels.cuda.pinned import PINNED_BYTES
from kernels.maths.curves import BN254
from tests.support.one_key import OneKey


@pytest.fixture(scope="module")
def groth16(tmp_path_factory: pytest.TempPathFactory) -> Groth16System:
    cpu, folder = CpuBackend(), tmp_path_factory.mktemp("residents")
    circuit = synthetic_circuit(BN254, 2000, cpu, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=folder / "key.zkey")
    write_wtns(folder / "w.wtns", BN254, circuit.witness)
    return Groth16System(folder / "key.zkey", [InputFile("one", folder / "w.wtns")])


def test_the_prediction_of_a_groth16_key_is_what_its_matrices_take(groth16: Groth16System) -> None:
    key, cpu = read_zkey(groth16.key_files["zkey"]), CpuBackend()
    loaded = [cpu.sparse.load_matrix(key.curve.fr, matrix) for matrix in key.matrices()]
    distinct = [matrix.values.nbytes for matrix in key.matrices()]
    assert all(isinstance(matrix, CpuMatrix) for matrix in loaded)
    assert groth16.key_bytes() == sum(matrix.nbytes for matrix in loaded) - sum(distinct)


def test_the_prediction_of_a_stark_key_is_what_its_columns_take() -> None:
    system = StarkSystem.from_options(StarkOptions(program="fibonacci", partitions=1))
    assert system.key_bytes() == 0, "fibonacci has no preprocessed columns"
    system = StarkSystem.from_options(StarkOptions(program="keccak-f", partitions=1))
    key = system.key
    rows = sum(t.preprocessed_width << (h or 0) for t, h in zip(key.tables, key.fixed_heights, strict=True))
    columns = 8 * rows * (1 + (1 << key.params.log_blowup))
    assert columns <= system.key_bytes() <= 5 * columns


@pytest.mark.parametrize(
    ("name", "matrices", "pinned"),
    [("cpu", True, 0), ("cuda", False, PINNED_BYTES)],
)
def test_what_a_prover_keeps_follows_from_where_it_computes(
    groth16: Groth16System, name: str, matrices: bool, pinned: int
) -> None:
    assert kept_by(groth16, BackendChoice(name)) == pinned + (groth16.key_bytes() if matrices else 0)


def test_the_default_budget_has_room_for_a_key_whose_files_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a control group's eyes cached files are used memory."""
    monkeypatch.setattr("cluster.governor.budget.memory_total", lambda: 8 << 30)
    monkeypatch.setattr("cluster.governor.budget.memory_available", lambda: 3 << 30)
    assert budget_of(1, None, 0, {}).memory == 3 << 29
    assert budget_of(1, None, 5 << 30, {}).memory == (5 << 30) + (3 << 29)
    assert budget_of(1, None, 9 << 30, {}).memory == 8 << 30, "what does not fit the machine is refused"


def test_a_key_that_does_not_fit_is_refused_before_anything_is_loaded(
    groth16: Groth16System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> Callable[[], None]:
        raise AssertionError("something was loaded")

    monkeypatch.setattr("actors.prover.make_backend", load)
    files = sum(array.nbytes for array in groth16.shared().values())
    settings = ExecutorSettings(local=True, backend="cpu", threads=1, memory=max(1 << 20, files))
    monkeypatch.setattr(groth16, "shared", lambda: {"zkey": np.zeros(1 << 20, np.uint8)})
    with pytest.raises(ClusterError, match="a key, with what provers make"):
        OneKey(LocalFleet(settings), groth16)


def test_what_is_kept_is_in_the_report_and_witnesses_have_the_rest(groth16: Groth16System, tmp_path: Path) -> None:
    needs = sum(a.nbytes for a in groth16.shared().values()) + groth16.key_bytes()
    settings = ExecutorSettings(local=True, backend="cpu", threads=1, memory=64 << 20)
    with OneKey(LocalFleet(settings), groth16) as key:
        (report,) = key.fleet.governor_report(0.0)
    assert report["keys"] == {"resident": 1, "memory": needs, "loaded": 1, "evicted": 0}
    assert report["held"] == 0
    with OneKey(LocalFleet(replace(settings, memory=None)), groth16) as key:
        (report,) = key.fleet.governor_report(0.0)
    assert report["memory"] > needs
