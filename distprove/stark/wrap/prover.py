"""Makes the Groth16 proof of a wrap: from the proof of a second root to the files of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.wrap.statement import statement_digest
from distprove.circuits.wrap.verifier import verifier_inputs
from distprove.errors import InvalidKey, InvalidProof
from distprove.groth16.binfile import map_file
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import ZKey, read_zkey
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.recursion.node import NODE
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.kept import kept_tape, wrap_shape
from distprove.steps import Steps
from distprove.system import DeviceTask, PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254


@dataclass(frozen=True)
class Wrapping:
    """A `DeviceTask`: the proof under a key's file of a circuit's witness, which is secret. It comes to what
    `Groth16Proof.to_dict` gives, not yet verified."""

    key: Path
    witness: NDArray[np.uint64] = field(repr=False)
    """(wires, 4) canonical integers."""

    @property
    def large(self) -> bool:
        return True

    def run(self, backend: Backend, host: Backend | None) -> dict[str, Any]:
        backend.prepare(BN254)
        proof, _ = prove(load_key(read_zkey(map_file(self.key), name=self.key.name), backend), self.witness)
        return proof.to_dict()


def read_wrap_key(path: Path) -> ZKey:
    """A key that may be a wrap's: its points are mapped, not read. Raises InputError, InvalidKey."""
    key = read_zkey(map_file(path), name=str(path))
    if key.curve is not BN254 or key.n_public != 1:
        raise InvalidKey(f"{path}: a wrap's key is over BN254 and has one public value")
    return key


def key_facts(key: ZKey) -> dict[str, Any]:
    """What a report has of the Groth16 key of a wrap."""
    weak = key.insecure or key.verification_key.weakness is not None
    return {"insecure_wrap": weak, "wrap_key": key.verification_key.digest().hex()}


def wrap(
    key: MultilinearKey,
    root: PartitionProof,
    path: Path,
    salt: bytes,
    run: Callable[[DeviceTask], Any],
    *,
    told: Mapping[str, Any] | None = None,
    threads: int = 1,
    steps: Steps | None = None,
) -> Wrap:
    """Wrap the proof of a second root, under its key, with the Groth16 key in a file, where `run` has it proven. It has
    been verified. `salt` has SALT_BYTES random bytes of this job alone. `told` are the `key_facts` that the job's
    report has; without them any key is taken.

    Raises InvalidProof where the root's proof does not hold, InvalidKey for a key of another circuit or of other facts,
    InputError.
    """
    steps = steps or Steps()
    zkey = read_wrap_key(path)
    if told is not None and key_facts(zkey) != told:
        raise InvalidKey(f"{path}: not the key that was there when the job began, and that its report names")
    # 1. The circuit's inputs are the root's proof, which its verifier goes through once.
    with steps("inputs"):
        proof, shape = MultilinearProof.from_record(root.data["proof"], key, root.name)
        inputs = verifier_inputs(shape, NODE, root.public, proof, salt)
    # 2. The witness, on the host.
    with steps("tape"):
        tape = kept_tape(key)
    with steps("witness"), CpuBackend(threads=threads) as cpu:
        witness = tape.witness(inputs, cpu)
    if len(witness) != zkey.n_vars or wrap_shape(key) != shape:
        raise InvalidKey(f"{path}: a key of another circuit, of {zkey.n_vars} wires; this wrap's has {len(witness)}")
    # 3. The proof, and that it holds.
    with steps("prove"):
        made = Groth16Proof.from_dict(run(Wrapping(path, witness)))
    public = (statement_digest(root.public, salt),)
    if not verify(zkey.verification_key, public, made):
        raise InvalidProof("the wrap's Groth16 proof does not verify: its key is of another circuit, or damaged")
    return Wrap(zkey.verification_key, made, public)
