"""Proofs that nobody waits for any more: a prover gives one up before any of its steps, and is as good as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.backends import BackendChoice
from actors.prover import Device, ProverWorker
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import CalledOff
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.wtns import write_wtns
from distprove.options import InputFile
from distprove.stark.options import StarkOptions
from distprove.stark.system import StarkSystem
from distprove.wanted import require_wanted, unless
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254


def groth16(folder: Path) -> Any:
    with CpuBackend(threads=1) as backend:
        circuit = synthetic_circuit(BN254, 50, backend, public_inputs=2)
        setup(circuit.r1cs, insecure_dev=True, backend=backend, out=folder / "key.zkey")
        write_wtns(folder / "w.wtns", BN254, circuit.witness)
    return Groth16System(folder / "key.zkey", [InputFile("w", folder / "w.wtns")])


def stark(folder: Path) -> Any:
    return StarkSystem.from_options(StarkOptions(program="fibonacci", arguments={"rows": 64}, partitions=2))


class After:
    """Calls a proof off after so many looks at whether it is."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def __call__(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("make", [groth16, stark])
def test_a_proof_is_given_up_before_any_step_and_the_next_one_is_good(make: Any, tmp_path: Path) -> None:
    system = make(tmp_path)
    device = Device(BackendChoice("cpu", 0, 2))
    worker = ProverWorker(system, device)
    shared = system.shared()
    worker.load(shared)
    partitions = system.plan()
    witnesses = [system.synthesiser(shared, 1).synthesise(partition) for partition in partitions]
    challenge = None
    if system.needs_barrier:
        commitments = [worker.commit(*each).value[0] for each in zip(partitions, witnesses, strict=True)]
        challenge = system.draw_challenge(commitments)
    for steps in range(100):
        try:
            with unless(After(steps)):
                proof = worker.make_proof(partitions[0], witnesses[0], challenge).value[0]
            break
        except CalledOff:
            continue
    assert steps >= 5
    assert system.verify(proof)
    require_wanted()  # what was said for a block is not said any more
    worker.close()
    device.close()
