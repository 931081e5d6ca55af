"""A further contribution to the second phase of a key's ceremony, as snarkjs makes it: a person's or a beacon's.

The key's delta is multiplied by a secret, and the points that are divided by delta are divided by it. The secret comes
from the operating system's generator and is dropped. One honest contribution makes a ceremony's key safe. A beacon's
factor is public: it ends a ceremony, so that its last person could not choose the key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from distprove.errors import InputError
from distprove.formats.files import require_apart
from distprove.groth16.beacon import Beacon
from distprove.groth16.binfile import BinFileWriter, Bytes
from distprove.groth16.ceremony import with_delta
from distprove.groth16.key_check import check_key
from distprove.groth16.phase2 import DeltaKey, contribution, contribution_hash
from distprove.groth16.zkey import PERSON, VERSION, ZKey, read_zkey, write_contributions, write_header
from kernels.interface.backend import Backend


@dataclass(frozen=True)
class Contributed:
    """Public facts about a contribution."""

    path: str
    name: str
    number: int
    """Number of contributions in the key, this one included."""
    persons: int
    """How many of them are persons'. If there is none, everybody knows delta."""
    hash: bytes
    """The contribution's hash, 64 bytes, as snarkjs prints it: its maker publishes it."""
    insecure: bool
    """Whether the key began without a ceremony: no contribution makes it safe."""


def contribute(
    key: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    name: str,
    backend: Backend,
    beacon: Beacon | None = None,
) -> Contributed:
    """Add a contribution called `name` to a `.zkey`, and write the new key to `out`.

    The contribution is this process's, or that of a `beacon`. All of the key's points are checked. Raises InputError,
    FormatError or InvalidKey for a file that is no key to contribute to.
    """
    require_apart([Path(out)], [Path(key)])
    given = read_zkey(key)
    circuit_hash, earlier = given.ceremony
    if circuit_hash is None:
        raise InputError(f"{given.name}: the key has no section of contributions (section 10) to add one to")
    secret = DeltaKey.random(given.curve) if beacon is None else DeltaKey.of_beacon(given.curve, beacon.draws())
    check_key(given, backend)
    points = with_delta(given.curve, given.points, secret.factor, backend)
    made = contribution(given.curve, circuit_hash, earlier, secret, points.delta1, name, beacon)
    changed = {8: points.c, 9: points.h}
    with BinFileWriter(out, "zkey", version=VERSION, sections=len(given.file.sections)) as file:
        for ident in sorted(given.file.sections):  # in snarkjs' order
            with file.section(ident):
                if ident == 2:
                    write_header(file, given.curve, given.n_vars, given.n_public, given.domain_size, points)
                elif ident == 10:
                    write_contributions(file, circuit_hash, (*earlier, made))
                else:
                    file.write(changed[ident] if ident in changed else _content(given, ident))
    return Contributed(
        path=os.fspath(out),
        name=name,
        number=len(earlier) + 1,
        persons=sum(one.kind == PERSON for one in (*earlier, made)),
        hash=contribution_hash(given.curve, made),
        insecure=given.insecure,
    )


def _content(key: ZKey, ident: int) -> Bytes:
    begin, size = key.file.sections[ident]
    return key.data[begin : begin + size]
