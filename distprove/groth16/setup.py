"""Groth16 set-up: makes the key of a circuit, from a powers-of-tau ceremony or, for development, without one.

From a prepared `.ptau` the key is the one that snarkjs' `groth16 setup` and one `zkey contribute` make; `zkey verify`
accepts it. The contribution's secret comes from the operating system's generator and is dropped. Whoever does not trust
this process can add a contribution to the key with snarkjs.

A key for development may also be a `.params` file of bellperson's, which has no place for the mark of such a key.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from distprove.errors import UsageError
from distprove.formats.files import require_apart
from distprove.groth16 import params
from distprove.groth16.ceremony import ceremony_hash, check_ptau, initial_points, with_delta
from distprove.groth16.dev_setup import ToxicWaste, dev_points, dev_slices
from distprove.groth16.key import KeyPoints
from distprove.groth16.phase2 import DeltaKey, contribution, contribution_hash
from distprove.groth16.ptau import Ptau, read_ptau
from distprove.groth16.qap import Qap, log_domain_of
from distprove.groth16.r1cs import R1cs
from distprove.groth16.templated import TemplatedSystem
from distprove.groth16.zkey import INSECURE_DEV_NAME, Contribution, write_zkey
from distprove.steps import Steps
from kernels.interface.backend import Backend

CONTRIBUTOR = "distprove setup"
"""Name of the contribution in a key made from a ceremony."""


@dataclass
class SetupReport:
    """Public facts about the key that a set-up made."""

    path: str
    curve: str
    constraints: int
    wires: int
    public: int
    domain_size: int
    insecure: bool
    """Whether the key was made without a ceremony. Proofs under such a key prove nothing to others."""
    circuit_hash: bytes = b""
    contribution_hash: bytes = b""
    size: int = 0
    """Size of the key file in bytes."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of each step in seconds."""


def setup(
    r1cs: R1cs | TemplatedSystem,
    *,
    ptau: str | os.PathLike[str] | None = None,
    insecure_dev: bool = False,
    backend: Backend,
    out: str | os.PathLike[str],
    began: Callable[[str], None] | None = None,
) -> SetupReport:
    """Make the proving key of `r1cs` and write it to `out`: a `.zkey`, or for a name that ends in `.params` such a
    file, without a ceremony, and the `.vk` beside it. Of a `TemplatedSystem` only a `.params` file is made.

    The caller gives either `ptau`, a prepared powers-of-tau file of at least the circuit's size, or `insecure_dev`.
    `began` is told what begins: a step, or the vector of points that is made and written.
    Raises UsageError, and InputError or its subclasses CurveMismatch, FormatError and InvalidKey for an unusable file.
    """
    if (ptau is None) != insecure_dev:
        raise UsageError("set-up takes either a prepared powers-of-tau file or insecure_dev, and exactly one of them")
    bellperson = os.fspath(out).endswith(params.SUFFIX)
    if bellperson and ptau is not None:
        raise UsageError("a .params file is made without a ceremony: give insecure_dev")
    written = [Path(out), params.vk_beside(Path(out))] if bellperson else [Path(out)]
    require_apart(written, [Path(path) for path in (getattr(r1cs, "name", None), ptau) if path is not None])
    steps = Steps(began=began)
    report = SetupReport(
        path=os.fspath(out),
        curve=r1cs.curve.title,
        constraints=r1cs.n_constraints,
        wires=r1cs.n_vars,
        public=r1cs.n_public,
        domain_size=1 << log_domain_of(r1cs.curve, r1cs.n_constraints, r1cs.n_public),
        insecure=insecure_dev,
        seconds=steps.seconds,
    )
    if bellperson:
        ordered = params.bellperson_qap(r1cs) if isinstance(r1cs, R1cs) else params.templated_qap(r1cs)
        with steps("points"):
            points = dev_slices(ordered, ToxicWaste.draw(ordered), backend, monomial=True)
        with steps("write"):
            params.write_params(out, ordered, points, backend, began)
        report.size = os.stat(out).st_size
        return report
    if not isinstance(r1cs, R1cs):
        raise UsageError("a .zkey has every row: expand the circuit, or make a .params file")
    qap = Qap.from_r1cs(r1cs)
    if ptau is None:
        points, circuit_hash, made = _from_nothing(qap, backend, steps)
    else:
        points, circuit_hash, made = _from_ceremony(qap, read_ptau(ptau), backend, steps)
    with steps("write"):
        write_zkey(
            out,
            curve=qap.curve,
            n_vars=qap.n_vars,
            n_public=qap.n_public,
            domain_size=qap.domain_size,
            points=points,
            a=qap.a,
            b=qap.b,
            circuit_hash=circuit_hash,
            contributions=(made,),
        )
    report.circuit_hash = circuit_hash
    report.contribution_hash = contribution_hash(qap.curve, made)
    report.size = os.stat(out).st_size
    return report


def _from_nothing(qap: Qap, backend: Backend, steps: Steps) -> tuple[KeyPoints, bytes, Contribution]:
    """Make a development key. Its only contribution carries the name that marks the key as insecure."""
    waste = ToxicWaste.draw(qap)
    with steps("points"):
        points = dev_points(qap, waste, backend)
    with steps("contribution"):
        circuit_hash = _dev_circuit_hash(qap, points)
        key = DeltaKey.random(qap.curve, waste.delta)
        made = contribution(qap.curve, circuit_hash, (), key, points.delta1, INSECURE_DEV_NAME)
    return points, circuit_hash, made


def _from_ceremony(qap: Qap, ptau: Ptau, backend: Backend, steps: Steps) -> tuple[KeyPoints, bytes, Contribution]:
    """Make snarkjs' initial key and add one contribution to its delta."""
    with steps("check"):
        check_ptau(qap, ptau, backend)
    with steps("points"):
        points = initial_points(qap, ptau, backend)
    with steps("hash"):
        circuit_hash = ceremony_hash(qap, points, ptau, backend)
    with steps("contribution"):
        key = DeltaKey.random(qap.curve)
        points = with_delta(qap.curve, points, key.factor, backend)
        made = contribution(qap.curve, circuit_hash, (), key, points.delta1, CONTRIBUTOR)
    return points, circuit_hash, made


def _dev_circuit_hash(qap: Qap, points: KeyPoints) -> bytes:
    """The hash that a development key, which has no ceremony, has in place of snarkjs' circuit hash."""
    digest = hashlib.blake2b(INSECURE_DEV_NAME.encode())
    for matrix in (qap.a, qap.b, qap.c):
        for part in (matrix.row_ptr, matrix.columns, matrix.value_index, matrix.values):
            digest.update(part.data)
    for vector in (points.alpha1, points.beta2, points.a, points.b1, points.h):
        digest.update(vector.data)
    return digest.digest()
