"""Reads keys from the files of snarkjs, bellperson and gnark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from distprove.errors import CurveMismatch, FormatError, UsageError, WitnessMismatch
from distprove.formats.files import read_bounded
from distprove.groth16 import snarkjs
from distprove.groth16.binfile import load
from distprove.groth16.committed.key import AnyVerificationKey, CommittedKey
from distprove.groth16.committed.names import DEFAULT
from distprove.groth16.gnark import MAX_KEY_BYTES, parse_committed_key
from distprove.groth16.gnark_key import GnarkKey, read_gnark_key
from distprove.groth16.keys import VerificationKey
from distprove.groth16.params import VK_SUFFIX, Constraints, ParamsKey, read_params, read_vk
from distprove.groth16.r1cs import open_r1cs
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.host.units import count_of
from kernels.maths.curves import BLS12_381

AnyProvingKey = ZKey | ParamsKey | GnarkKey


def read_verification_key(path: Path) -> VerificationKey:
    """Read verification_key.json, or a `.vk` by its suffix. Raises InputError, FormatError, InvalidKey, and UsageError
    for a proving key."""
    if path.suffix == ".zkey":
        raise UsageError(
            f"{path} is a proving key: `distprove zkey export KEY.zkey --out verification_key.json` writes its "
            "verification key"
        )
    return read_vk(path) if path.suffix == VK_SUFFIX else snarkjs.read_verification_key(path)


def read_trusted_key(path: Path, like: AnyVerificationKey) -> AnyVerificationKey:
    """The key that a verifier trusts, of the kind that a proof carries: for a circuit with commitments gnark's
    verifying key, whose file does not say how they are hashed. Raises as `read_verification_key`."""
    if not isinstance(like, CommittedKey):
        return read_verification_key(path)
    data = read_bounded(path, MAX_KEY_BYTES)
    return parse_committed_key(data, like.curve, str(path), commitment_hash=like.commitment_hash)


def read_key(
    files: Mapping[str, Path | NDArray[np.uint8]],
    name: str,
    *,
    circuit: str | None = None,
    ceremony: bool = False,
    threads: int = 1,
    commitment_hash: str = DEFAULT,
) -> AnyProvingKey:
    """Read the proving key in `files`, "zkey", "params" or "gnark_pk", which errors call `name`. The circuit of a
    "params" is "r1cs" among the files, or else the one in Python named `circuit`. A "gnark_pk" has "gnark_vk" and
    "r1cs" beside it. `ceremony` is for `read_zkey`, `threads` for `read_params`, `commitment_hash` for
    `read_gnark_key`. Raises InputError and its subclasses;
    UsageError for a circuit that is not there."""
    if "zkey" in files:
        zkey = read_zkey(files["zkey"], name=name, ceremony=ceremony)
        if circuit is not None:
            require_sizes(circuit, zkey)
        return zkey
    if "gnark_pk" in files:
        vk, vk_name = load(files["gnark_vk"], f"the verifying key of {name}")
        if vk.nbytes > MAX_KEY_BYTES:
            raise FormatError(f"{vk_name}: larger than {MAX_KEY_BYTES} bytes")
        opened_r1cs = open_r1cs(files["r1cs"], name=f"the circuit of {name}")
        return read_gnark_key(
            files["gnark_pk"],
            vk.tobytes(),
            opened_r1cs,
            name=name,
            vk_name=vk_name,
            commitment_hash=commitment_hash,
        )

    def opened() -> Constraints:
        if "r1cs" in files or circuit is None:
            return open_r1cs(files["r1cs"], name=f"the circuit of {name}")
        from distprove.circuits.registry import constraint_system

        return constraint_system(circuit)

    sizes = None if "r1cs" in files else sizes_of(circuit)
    return read_params(files["params"], opened, name=name, threads=threads, sizes=sizes)


def sizes_of(circuit: str | None) -> tuple[int, int] | None:
    """Wires and public wires of a circuit in Python, where they are known before it is built."""
    from distprove.circuits.registry import known_sizes

    return None if circuit is None else known_sizes(circuit)


def require_sizes(circuit: str, key: ZKey) -> None:
    """Raise CurveMismatch or WitnessMismatch where the header of a key shows that it is of another circuit than one
    that ships."""
    sizes = sizes_of(circuit)
    if sizes is None:
        return
    if key.curve is not BLS12_381:
        raise CurveMismatch(f"{circuit}: the circuit is over {BLS12_381.title}, the key {key.curve.title}")
    if sizes != (key.n_vars, key.n_public):
        raise WitnessMismatch(
            f"{circuit}: the circuit has {count_of(sizes[0], 'wire')}, {sizes[1]} of them public, the key "
            f"{key.n_vars} and "
            f"{key.n_public}: {key.name} is of another circuit"
        )
