"""Points at infinity are left out of a key's tables where they cost something, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16.setup import setup
from distprove.groth16.vectors import COPY_SHARE, NEARLY_ALL, KeyVectors, PickedPoints, finite, picked_wires
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.maths.curves import BLS12_381, CURVES, Curve, Group
from tests.support.emulated_device import EmulatedDevice
from tests.support.file_builders import with_points


@pytest.mark.parametrize("group", list(Group))
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_a_point_with_any_byte_is_not_infinity(curve: Curve, group: Group) -> None:
    size = 8 * curve.point_limbs(group)
    memory = np.zeros(4 + (size + 300) * size, np.uint8)
    rows = memory[4:].reshape(-1, size)  # as in a file, not aligned
    assert not finite(rows).any()
    rows[np.arange(size), np.arange(size)] = 1
    assert finite(rows).tolist() == size * [True] + 300 * [False]
    assert finite(rows.copy().view(np.uint64)).tolist() == finite(rows).tolist()


@pytest.mark.parametrize("share", [0, 0.1, 0.5, NEARLY_ALL - 0.01, NEARLY_ALL, 1])
def test_wires_are_picked_where_many_have_no_point(share: float) -> None:
    occurs = np.random.default_rng(1).permutation(np.arange(1000) < 1000 * share)
    wires = picked_wires(occurs)
    assert (wires is None) == (share == 0 or share >= NEARLY_ALL)
    if wires is not None:
        assert wires.dtype == np.uint32
        assert wires.tolist() == np.flatnonzero(occurs).tolist()


@pytest.fixture(scope="module")
def zkey(tmp_path_factory: pytest.TempPathFactory) -> ZKey:
    cpu, path = CpuBackend(), tmp_path_factory.mktemp("key") / "small.zkey"
    setup(synthetic_circuit(BLS12_381, 200, cpu).r1cs, insecure_dev=True, backend=cpu, out=path)
    return read_zkey(path)


def test_a_device_gets_the_finite_points_and_the_cpu_the_file(zkey: ZKey) -> None:
    device, here = (KeyVectors.of(zkey, backend) for backend in (CudaBackend(EmulatedDevice()), CpuBackend()))
    assert (here.wires_a, here.wires_b) == (None, None)
    assert all(np.shares_memory(here.points[name][:], zkey.data) for name in here.points)
    for wires, sections in ((device.wires_a, ("a",)), (device.wires_b, ("b1", "b2"))):
        assert wires is not None
        for name in sections:
            whole, kept = here.points[name][:], device.points[name]
            assert isinstance(kept, PickedPoints)
            assert 0 < len(kept) < NEARLY_ALL * zkey.n_vars
            assert kept.nbytes == kept[:].nbytes
            assert np.array_equal(kept[:], whole[wires])
            assert np.array_equal(kept[3:7], whole[wires][3:7])
            assert not np.delete(whole, wires, axis=0).any()
    for name in ("c", "h"):
        assert device.points[name] is here.points[name]


@pytest.mark.parametrize(("short", "sections"), [(0, {"a", "b1", "b2"}), (1, {"a"})], ids=["enough", "short"])
def test_points_are_not_copied_where_the_host_lacks_memory_for_them(
    zkey: ZKey, short: int, sections: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of B in G2 are the largest vector."""
    backend = CudaBackend(EmulatedDevice())
    largest = max(KeyVectors.of(zkey, backend).points[name].nbytes for name in ("a", "b1", "b2"))
    monkeypatch.setattr("distprove.groth16.vectors.memory_available", lambda: COPY_SHARE * largest - short)
    vectors = KeyVectors.of(zkey, backend)
    assert {name for name, points in vectors.points.items() if isinstance(points, PickedPoints)} == sections
    assert (vectors.wires_b is None) == bool(short)
    assert all(np.shares_memory(vectors.points[name][:], zkey.data) for name in vectors.points.keys() - sections)


def test_a_wire_with_one_of_two_points_of_b_keeps_both(zkey: ZKey) -> None:
    """As set-up makes no key; but a proof under any key is that of the CPU."""
    b1 = zkey.points.b1.copy()
    b1[finite(b1)] = 0
    wires = KeyVectors.of(with_points(zkey, b1=b1), CudaBackend(EmulatedDevice())).wires_b
    assert wires is not None
    assert np.array_equal(wires, np.flatnonzero(finite(zkey.points.b2)))
