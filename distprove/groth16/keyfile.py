"""Reads keys from the files of either library, snarkjs or bellperson."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.groth16 import snarkjs
from distprove.groth16.keys import VerificationKey
from distprove.groth16.params import VK_SUFFIX, Constraints, ParamsKey, read_params, read_vk
from distprove.groth16.r1cs import open_r1cs
from distprove.groth16.zkey import ZKey, read_zkey


def read_verification_key(path: Path) -> VerificationKey:
    """Read verification_key.json, or a `.vk` by its suffix. Raises InputError, FormatError, InvalidKey, and UsageError
    for a proving key."""
    if path.suffix == ".zkey":
        raise UsageError(
            f"{path} is a proving key: `distprove zkey export KEY.zkey --out verification_key.json` writes its "
            "verification key"
        )
    return read_vk(path) if path.suffix == VK_SUFFIX else snarkjs.read_verification_key(path)


def read_key(
    files: Mapping[str, Path | NDArray[np.uint8]], name: str, *, circuit: str | None = None, ceremony: bool = False
) -> ZKey | ParamsKey:
    """Read the proving key in `files`, "zkey" or "params", which errors call `name`. The circuit of a "params" is
    "r1cs" among the files, or else the one in Python named `circuit`. `ceremony` is for `read_zkey`. Raises InputError
    and its subclasses; UsageError for a circuit that is not there."""
    if "zkey" in files:
        return read_zkey(files["zkey"], name=name, ceremony=ceremony)

    def opened() -> Constraints:
        if "r1cs" in files or circuit is None:
            return open_r1cs(files["r1cs"], name=f"the circuit of {name}")
        from distprove.circuits.registry import constraint_system

        return constraint_system(circuit)

    return read_params(files["params"], opened, name=name)
