"""Verification of proofs of circuits with commitments, alone and in batches, as gnark 0.14 verifies them.

A batch takes random coefficients as `distprove.groth16.verifier` does, for the proofs of knowledge as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from distprove.errors import CurveMismatch, InvalidProof
from distprove.groth16.committed.hashes import folding_powers, hashed
from distprove.groth16.committed.key import CommittedKey, CommittedProof
from distprove.groth16.points import Words
from distprove.groth16.verifier import (
    COEFFICIENT_BYTES,
    Statement,
    bisected,
    check_proof,
    check_public,
    combination_holds,
)
from kernels.cpu.group import sum_points
from kernels.cpu.pairing import combine_g1, first_invalid_point, pairing_product_is_one
from kernels.host.units import count_of
from kernels.maths.curves import Group
from kernels.maths.encoding import scalars_from_ints

CommittedStatement = tuple[Sequence[int], CommittedProof]
"""Public values with the proof that they belong to a satisfying witness."""


def verify_committed(key: CommittedKey, public: Sequence[int], made: CommittedProof) -> bool:
    """Whether a proof of gnark holds. Raises InvalidProof or CurveMismatch for a malformed one."""
    return verify_committed_batch(key, [(public, made)])


def verify_committed_batch(
    key: CommittedKey, statements: Sequence[CommittedStatement], rng: Callable[[int], bytes] = os.urandom
) -> bool:
    """Whether all proofs hold, checked together. An empty batch holds. `rng` is as of `verifier.verify_batch`. Raises
    InvalidProof or CurveMismatch for the first malformed statement."""
    for public, made in statements:
        _check_formed(key, public, made)
    return _all_hold(key, statements, rng)


def find_invalid_committed(
    key: CommittedKey, statements: Sequence[CommittedStatement], rng: Callable[[int], bytes] = os.urandom
) -> list[int]:
    """Indices of the statements that are malformed or false, in order."""
    bad, formed = [], []
    for index, (public, made) in enumerate(statements):
        try:
            _check_formed(key, public, made)
        except (InvalidProof, CurveMismatch):
            bad.append(index)
        else:
            formed.append(index)
    return sorted([*bad, *bisected(formed, lambda some: _all_hold(key, [statements[i] for i in some], rng))])


def _check_formed(key: CommittedKey, public: Sequence[int], made: CommittedProof) -> None:
    curve, count = key.curve, len(key.committed)
    if made.proof.curve != curve:
        raise CurveMismatch(f"a proof over {made.proof.curve.title} under a key over {curve.title}")
    if len(made.commitments) != count:
        raise InvalidProof(f"the proof has {count_of(len(made.commitments), 'commitment')}, and its key {count}")
    if len(public) != key.n_public:
        raise InvalidProof(f"{count_of(len(public), 'public value')}, the key has {key.n_public}")
    check_public(key.key, [*public, *[0] * count])
    check_proof(key.key, made.proof)
    if first_invalid_point(curve, Group.G1, np.concatenate([made.commitments, made.knowledge[None]])) is not None:
        raise InvalidProof("a commitment or the proof of knowledge is not a point of G1")


def _all_hold(key: CommittedKey, statements: Sequence[CommittedStatement], rng: Callable[[int], bytes]) -> bool:
    """Whether well-formed statements hold."""
    if not statements:
        return True
    # 1. The commitments' hashes are the last values that the verifier sees.
    seen = [[*public, *commitment_hashes(key, public, made.commitments)] for public, made in statements]
    # 2. The proofs of knowledge.
    proofs = [made for _, made in statements]
    if key.committed and not _knowledge_holds(key, [values[key.n_public :] for values in seen], proofs, rng):
        return False
    # 3. The equations of Groth16, with the commitments added to what IC gives.
    plain: list[Statement] = [(values, made.proof) for values, made in zip(seen, proofs, strict=True)]
    beside = [sum_points(key.curve, Group.G1, list(made.commitments)) for made in proofs]
    return combination_holds(key.key, plain, rng, beside)


def commitment_hashes(key: CommittedKey, public: Sequence[int], commitments: Words) -> list[int]:
    """The values of the commitments' wires, (n, point_limbs): each may be hashed with those before it."""
    values = [*public]
    for point, wires in zip(commitments, key.committed, strict=True):
        values.append(hashed(key.commitment_hash, key.curve, point, [values[wire - 1] for wire in wires]))
    return values[len(public) :]


def _knowledge_holds(
    key: CommittedKey,
    hashes: Sequence[Sequence[int]],
    proofs: Sequence[CommittedProof],
    rng: Callable[[int], bytes],
) -> bool:
    """Whether e(sum_k r^k D_k under its own -sigma_k g) e(knowledge, g) = 1 for each proof, with its own r, as one
    product by a random combination."""
    curve, modulus = key.curve, key.curve.fr.modulus
    random = rng(COEFFICIENT_BYTES * len(proofs))
    rho = [
        int.from_bytes(random[COEFFICIENT_BYTES * i : COEFFICIENT_BYTES * (i + 1)], "little")
        for i in range(len(proofs))
    ]
    powers = [folding_powers(curve, each) for each in hashes]

    def combined(vectors: Sequence[Words], factors: Sequence[int]) -> Words:
        return combine_g1(curve, np.stack(vectors), scalars_from_ints(curve.fr, factors))

    sums = [
        combined(
            [made.commitments[k] for made in proofs],
            [c * own[k] % modulus for c, own in zip(rho, powers, strict=True)],
        )
        for k in range(len(key.committed))
    ]
    sums.append(combined([made.knowledge for made in proofs], rho))
    g2 = [*(each.g_sigma_neg for each in key.commitment_keys), key.commitment_keys[0].g]
    return pairing_product_is_one(curve, np.stack(sums), np.stack(g2))
