"""Keys of stark-backend 2.0: parameters, the AIRs as symbolic graphs, and the hash that a transcript begins with.

A key holds what prover and verifier need; a verifier leaves the preprocessed traces alone. `key_file` reads one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from distprove.stark.openvm.forms import AirForms
from distprove.stark.openvm.graph import Graph
from distprove.stark.openvm.params import SystemParams
from kernels.maths.babybear import Elements


@dataclass(frozen=True)
class Widths:
    """Columns of the parts of an AIR's trace."""

    preprocessed: int | None
    """None for an AIR without a preprocessed trace."""
    cached: tuple[int, ...]
    """Parts of the main trace that have a commitment of their own."""
    common: int
    """The part of the main trace that is committed together with that of all other AIRs."""


@dataclass(frozen=True)
class Preprocessed:
    """The preprocessed trace of an AIR."""

    root: Elements
    """Commitment to it, (8,)."""
    n: int
    """log2 of its height, less log_skip: `hypercube_dim`."""
    stacked_width: int
    trace: Elements
    """(columns, rows)"""


@dataclass(frozen=True)
class OpenVmAir:
    """An AIR of a key."""

    name: str
    is_required: bool
    """Whether its trace must be present in every proof."""
    public_values: int
    """Number of its public values."""
    needs_next: bool
    """Whether it reads next rows, so that each column is opened there too: `need_rot`."""
    max_constraint_degree: int
    widths: Widths
    preprocessed: Preprocessed | None
    graph: Graph
    unused_variables: Elements
    """Columns that no expression reads, as nodes (columns, 4). Only the hash of the key depends on them."""

    @property
    def part_widths(self) -> tuple[int, ...]:
        """Columns of the parts in the order of a proof's openings: common, preprocessed, cached."""
        fixed = () if self.widths.preprocessed is None else (self.widths.preprocessed,)
        return (self.widths.common, *fixed, *self.widths.cached)

    @cached_property
    def forms(self) -> AirForms:
        """What the prover sums over the rows of a trace."""
        return AirForms(self.graph)


@dataclass(frozen=True)
class HeightConstraint:
    """The sum over all present traces of coefficient times lifted height must be below the threshold."""

    coefficients: tuple[int, ...]
    """One for each AIR."""
    threshold: int


@dataclass(frozen=True)
class OpenVmKey:
    """A key for proofs with any of its AIRs."""

    params: SystemParams
    airs: tuple[OpenVmAir, ...]
    height_constraints: tuple[HeightConstraint, ...]
    pre_hash: Elements
    """Hash of everything else that a verifier reads, (8,). A transcript begins with it."""
