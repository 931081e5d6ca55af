"""Every real circuit and every one of its inputs: our witness and proof, accepted by our verifier and by snarkjs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from distprove.groth16.inputs import read_input
from distprove.groth16.key_check import check_key
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.snarkjs import format_proof, format_public
from distprove.groth16.verifier import verify, verify_batch
from distprove.groth16.witness import WitnessProgram
from distprove.groth16.zkey import read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.maths.encoding import unpack
from tests.conftest import Snarkjs

CIRCUITS = ("tiny", "epochKeyLite", "signup", "reputation", "sha256_256", "userStateTransition", "chain_bls12381")


@pytest.mark.node
@pytest.mark.parametrize("circuit", CIRCUITS)
def test_every_input_proves_and_snarkjs_accepts(
    circuit: str, shared_data: Path, snarkjs: Snarkjs, tmp_path: Path
) -> None:
    folder = shared_data / "circom" / circuit
    zkey = read_zkey(folder / "circuit.zkey")
    vk = zkey.verification_key
    program = WitnessProgram(folder / "circuit.wasm")
    exported: list[Path] = []
    statements: list[tuple[list[int], Groth16Proof]] = []
    with CpuBackend(threads=2) as backend:
        check_key(zkey, backend)
        key = load_key(zkey, backend)
        for path in sorted((folder / "inputs").glob("*.json")):
            witness = program.generate(read_input(path))
            proof, times = prove(key, witness)
            public = unpack(witness[1 : key.n_public + 1])
            assert verify(vk, public, proof)
            assert times.to_device == times.to_host == 0
            out = tmp_path / path.stem
            out.mkdir()
            (out / "proof.json").write_text(format_proof(proof))
            (out / "public.json").write_text(format_public(public))
            exported.append(out)
            statements.append((public, proof))
    assert verify_batch(vk, statements)
    library = snarkjs.program.with_name("main.cjs")
    done = subprocess.run(
        ["node", Path(__file__).with_name("verify_many.mjs"), library, folder / "verification_key.json", *exported],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == len(exported) > 0
