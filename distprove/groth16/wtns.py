"""Reads and writes `.wtns` files: a circuit's witness, as circom's witness programs and snarkjs write it (version 2).

section 1   n8 u32 | prime (n8 bytes) | number of values u32
section 2   the values, n8 bytes each: canonical integers, not in Montgomery form; the first is the constant wire 1
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from distprove.errors import CurveMismatch, FormatError, UsageError, WitnessMismatch
from distprove.groth16.binfile import BinFile, BinFileWriter, Source
from distprove.groth16.elements import Words, as_words, first_not_canonical
from distprove.groth16.field_headers import curve_of_scalar_field
from distprove.groth16.key import LoadableKey
from kernels.host.units import count_of
from kernels.interface.arrays import Empty
from kernels.maths.curves import Curve

VERSION = 2
_PRIVATE = 0o600


def require_same_circuit(what: str, curve: Curve, n_vars: int, circuit: LoadableKey) -> None:
    """Raise CurveMismatch or WitnessMismatch unless `what`, of so many wires, can be of `circuit`, that of a key."""
    if curve is not circuit.curve:
        raise CurveMismatch(f"{what} is for {curve.title}, the key for {circuit.curve.title}")
    if n_vars != circuit.n_vars:
        raise WitnessMismatch(
            f"{what} is of {count_of(n_vars, 'wire')}, the circuit of the key of {circuit.n_vars}: they are of "
            f"different circuits"
        )


@dataclass(frozen=True)
class CircomWitness:
    """A witness: the values of all wires. They are secret and never appear in the repr or in an error."""

    curve: Curve = field(repr=False)
    values: Words = field(repr=False)
    """The values, (n, limbs) uint64, aligned; canonical integers, not in Montgomery form."""
    name: str = "<witness>"

    def check_for(self, circuit: LoadableKey) -> None:
        """Raise CurveMismatch or WitnessMismatch unless this can be a witness of `circuit`."""
        require_same_circuit(f"{self.name}: the witness", self.curve, self.values.shape[0], circuit)
        if int(self.values[0, 0]) != 1 or np.any(self.values[0, 1:]):
            raise WitnessMismatch(f"{self.name}: the first wire is not 1, so this is not a witness of a circom circuit")


def read_wtns(source: Source, *, name: str | None = None, empty: Empty = np.empty) -> CircomWitness:
    """Read a `.wtns` file. The values are copied only if they are not aligned in the file, as in snarkjs' layout, into
    an array that `empty` allocates.

    Raises FormatError when the file is malformed or holds a value not below the prime, InputError when it cannot be
    read.
    """
    file = BinFile.read(source, "wtns", (VERSION,), name=name)
    header = file.section(1, "header")
    curve = curve_of_scalar_field(header)
    count = header.u32()
    header.finish()
    body = file.section(2, "values")
    values = as_words(body.rows(count, curve.fr.bytes), empty)
    body.finish()
    if count == 0:
        raise FormatError(f"{file.name}: the witness is empty")
    bad = first_not_canonical(curve.fr, values)
    if bad is not None:
        raise FormatError(f"{file.name}: section 2 (values): wire {bad} is not below the prime")
    return CircomWitness(curve, values, file.name)


def write_wtns(path: str | os.PathLike[str], curve: Curve, values: Words) -> None:
    """Write a witness, (n, limbs) canonical integers, byte for byte as snarkjs does. Only the owner may read the file.

    Raises UsageError for another shape.
    """
    if values.ndim != 2 or values.shape[1] != curve.fr.limbs:
        raise UsageError(f"a witness has shape (n, {curve.fr.limbs}), not {values.shape}")
    with BinFileWriter(path, "wtns", version=VERSION, sections=2, mode=_PRIVATE) as out:
        with out.section(1):
            out.prime(curve.fr.modulus, curve.fr.bytes)
            out.u32(values.shape[0])
        with out.section(2):
            out.write(np.asarray(values, dtype="<u8"))
