"""What a Groth16 proving key is: its group elements, and what provers read of it from any file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from distprove.groth16.committed.wires import CommitmentWires
from kernels.interface.arrays import Array, HostArray
from kernels.interface.sparse import SparseRows
from kernels.maths.curves import Curve, Group

SINGLE = {
    "alpha1": Group.G1,
    "beta1": Group.G1,
    "beta2": Group.G2,
    "gamma2": Group.G2,
    "delta1": Group.G1,
    "delta2": Group.G2,
}
"""The single points of a key and their groups, in the order of files of either library and of snarkjs' hashes."""
SECTIONS = {"a": Group.G1, "b1": Group.G1, "b2": Group.G2, "c": Group.G1, "h": Group.G1}
"""The vectors of points that a key is loaded with, and their groups."""


class Points(Protocol):
    """A vector of points in a mapped file or in memory; a slice of it is what `Groups.load_points` takes."""

    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, which: slice, /) -> HostArray: ...


@dataclass(frozen=True)
class KeyPoints:
    """The points of a proving key, affine in Montgomery form. Single points, (point_limbs,) uint64, are on the host.

    Vectors are (n, point_limbs) uint64, those but `ic` in host memory or a backend's. Of a key in a file they are
    `Points`: views of the file, (n, 8 * point_limbs) uint8 and possibly unaligned, or decoded slice by slice.
    """

    alpha1: HostArray
    beta1: HostArray
    beta2: HostArray
    gamma2: HostArray
    delta1: HostArray
    delta2: HostArray
    ic: Array
    """One point for the constant and for each public wire."""
    a: Array
    """One point for each wire, as in `b1` and `b2`."""
    b1: Array
    b2: Array
    c: Array
    """One point for each private wire that no commitment is of and that is no commitment's hash."""
    h: Array
    """One point for each row of the domain, in the Lagrange basis of the odd coset; or one fewer, in the monomial basis
    (see `dev_points`)."""


@dataclass(frozen=True)
class CommitmentBasis:
    """What a commitment to wires is made under."""

    wires: CommitmentWires
    basis: Points
    """One point for each private wire that it is of, in their order."""
    sigma: Points
    """These times sigma, for the proof of knowledge."""


class LoadableKey(Protocol):
    """What provers load of a key."""

    @property
    def curve(self) -> Curve: ...
    @property
    def n_vars(self) -> int: ...
    @property
    def n_public(self) -> int: ...
    @property
    def domain_size(self) -> int: ...
    @property
    def points(self) -> KeyPoints: ...

    @property
    def nnz(self) -> int:
        """Number of entries of A and B together."""

    @property
    def wires_a(self) -> HostArray | None:
        """The wire of each A point, (n,) uint32 ascending; None where every wire has one, which may be infinity."""

    @property
    def wires_b(self) -> HostArray | None:
        """The wire of each B1 and B2 point, as in `wires_a`."""

    @property
    def commitment_bases(self) -> Sequence[CommitmentBasis]:
        """What each commitment to wires is made under; nothing but for circuits with commitments."""

    @property
    def monomial(self) -> bool:
        """Whether the H points belong to the quotient's coefficients, or to its values on the odd coset."""

    def matrices(self) -> tuple[SparseRows, SparseRows]:
        """The matrices A and B, domain_size x n_vars. Raises InvalidKey."""


class ProvingKey(LoadableKey, Protocol):
    """A proving key in a file."""

    @property
    def name(self) -> str: ...
    @property
    def data(self) -> HostArray:
        """The bytes of the whole file."""
