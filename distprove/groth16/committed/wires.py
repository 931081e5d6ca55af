"""Which wires a circuit's commitments are of: a section that only `.r1cs` files of gnark's circuits have.

    section 22   count u32, then for each commitment: wire of its hash u32 | wires that are hashed with it
                 | private wires that it is of

A list is its count, u32, and that many wires, u32, ascending. Wires that are hashed are public, or of hashes of earlier
commitments. A private wire belongs to one commitment at most. Our exporter for gnark writes the section (`go`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from distprove.groth16.binfile import SectionReader
from distprove.groth16.committed.key import MAX_COMMITMENTS
from distprove.groth16.r1cs import R1csFile
from kernels.host.units import count_of

SECTION = 22


@dataclass(frozen=True)
class CommitmentWires:
    """The wires of one commitment."""

    hash: int
    """The wire whose value is the commitment's hash."""
    hashed: tuple[int, ...]
    """The wires whose values are hashed with it."""
    private: NDArray[np.uint32] = field(repr=False)
    """The wires that it is of, (n,) ascending."""


def read_commitment_wires(circuit: R1csFile) -> tuple[CommitmentWires, ...]:
    """The wires of each commitment of a circuit, none for one without. Raises FormatError."""
    if SECTION not in circuit.file.sections:
        return ()
    section = circuit.file.section(SECTION, "commitments")
    count = section.u32()
    if count > MAX_COMMITMENTS:
        raise section.error(f"{count_of(count, 'commitment')}, of {MAX_COMMITMENTS} at most")
    found: list[CommitmentWires] = []
    taken = np.zeros(circuit.n_vars, dtype=np.bool_)
    taken[: circuit.n_public + 1] = True
    for k in range(count):
        own, hashed, private = section.u32(), _wires(section, circuit.n_vars), _wires(section, circuit.n_vars)
        before = [each.hash for each in found]
        if not max([circuit.n_public, *before]) < own < circuit.n_vars:
            raise section.error(f"the hash of commitment {k} is wire {own}: public, an earlier one's, or none")
        if any(wire not in before and not 1 <= wire <= circuit.n_public for wire in hashed.tolist()):
            raise section.error(f"a wire that is hashed with commitment {k} is neither public nor an earlier hash")
        if taken[private].any() or taken[own] or own in private:
            raise section.error(f"commitment {k} is of a wire that is public, another commitment's or a hash")
        taken[private] = taken[own] = True
        found.append(CommitmentWires(own, tuple(hashed.tolist()), private))
    section.finish()
    return tuple(found)


def _wires(section: SectionReader, n_vars: int) -> NDArray[np.uint32]:
    """The next list of wires. Raises FormatError."""
    wires: NDArray[np.uint32] = section.rows(section.u32(), 4).copy().view("<u4").reshape(-1).astype(np.uint32)
    if wires.size and (int(wires.max()) >= n_vars or not (wires[1:] > wires[:-1]).all()):
        raise section.error(f"a list of wires is not ascending, or names one that is not there, of {n_vars}")
    return wires
