"""Several keys on one device, the CUDA backend with its kernels on the host: what one gives back, the other has."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from actors.backends import BackendChoice
from actors.prover import Device, ProverWorker
from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.wtns import write_wtns
from distprove.options import InputFile
from distprove.system import Witness
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.errors import OutOfMemory
from kernels.maths.curves import BN254
from tests.support.emulated_device import EmulatedDevice, compiler


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> list[Groth16System]:
    """Two keys of different circuits, with a witness each."""
    cpu, folder = CpuBackend(), tmp_path_factory.mktemp("rooms")
    made = []
    for size in (3, 9):
        circuit = synthetic_circuit(BN254, size, cpu, public_inputs=2)
        setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=folder / f"{size}.zkey")
        write_wtns(folder / f"{size}.wtns", BN254, circuit.witness)
        made.append(Groth16System(folder / f"{size}.zkey", [InputFile("one", folder / f"{size}.wtns")]))
    return made


def proves(system: Groth16System, prover: ProverWorker) -> bool:
    (partition,) = system.plan()
    witness: Witness = system.synthesiser(system.shared(), 1).synthesise(partition)
    return bool(system.verify(prover.make_proof(partition, witness, None).value[0]))


def test_a_key_that_goes_gives_back_its_memory_and_leaves_the_other(
    systems: list[Groth16System], monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    emulated = EmulatedDevice(max_block=32)
    monkeypatch.setattr("actors.prover.make_backend", lambda *_: CudaBackend(emulated))
    device = Device(BackendChoice("cuda"))
    one, other = (ProverWorker(system, device) for system in systems)
    assert one.load(systems[0].shared()).value["key_bytes"] > 0
    alone = emulated.memory_free()
    took = other.load(systems[1].shared()).value["key_bytes"]
    assert took > alone - emulated.memory_free() - 4096
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(proves, systems, (one, other))) == [True, True]
    other.close()
    left = emulated.memory_free()
    assert alone - left < took // 4, "more stays than the roots of unity, which are the device's"

    # With memory for the proofs under the first key only, the second finds no room, and leaves it as it was.
    emulated._budget = emulated._used + one.beside + 1000
    with pytest.raises(OutOfMemory):
        other.load(systems[1].shared())
    gc.collect()
    assert emulated._used == (1 << 34) - left
    assert proves(systems[0], one)
    one.close()
    device.close()
