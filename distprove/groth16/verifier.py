"""Verification of Groth16 proofs, alone and in batches.

Groth, On the size of pairing-based non-interactive arguments (eprint 2016/260), section 3.2. A batch is checked as one
random linear combination of its equations, after Bellare, Garay, Rabin: Fast batch verification for modular
exponentiation and digital signatures (EUROCRYPT 1998): with 128-bit coefficients that the prover cannot foresee, a
batch with a false proof passes with probability at most 2^-128.

A malformed statement (a point off its curve or outside the subgroup, public values out of range or of the wrong number)
raises InvalidProof; a well-formed but false statement gives False.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from distprove.errors import CurveMismatch, InvalidProof
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from kernels.cpu.group import add, neg
from kernels.cpu.pairing import combine_g1, first_invalid_point, pairing_product_is_one, scale_g1
from kernels.host.units import count_of
from kernels.maths.curves import Group
from kernels.maths.encoding import pack, scalars_from_ints

Public = Sequence[int]
"""The public values of one proof."""
Statement = tuple[Public, Groth16Proof]
"""Public values with the proof that they belong to a satisfying witness."""

COEFFICIENT_BYTES = 16
"""Bytes of a random coefficient."""


def verify(key: VerificationKey, public: Sequence[int], proof: Groth16Proof) -> bool:
    """Whether `proof` shows that `public` extends to a satisfying witness. Raises InvalidProof or CurveMismatch."""
    # 1. Check the statement: one canonical scalar for each public input.
    check_public(key, public)
    # 2. Check the proof: members of G1, G2, G1.
    check_proof(key, proof)
    # 3. [L]_1 = IC_0 + sum_i public_i IC_i.
    inputs = combine_g1(key.curve, key.ic, scalars_from_ints(key.curve.fr, (1, *public)))
    # 4. e(A, B) = e(alpha, beta) e(L, gamma) e(C, delta), as a product that must be one.
    g1 = np.stack([neg(key.curve, Group.G1, proof.a), key.alpha1, inputs, proof.c])
    g2 = np.stack([proof.b, key.beta2, key.gamma2, key.delta2])
    return pairing_product_is_one(key.curve, g1, g2)


def verify_batch(
    key: VerificationKey, statements: Sequence[Statement], rng: Callable[[int], bytes] = os.urandom
) -> bool:
    """Whether all proofs hold, checked together as one product of n + 3 pairings.

    `rng(n)` returns n bytes that no maker of the proofs can foresee. An empty batch holds. Raises InvalidProof or
    CurveMismatch, which name the first malformed statement by its index.
    """
    # 1., 2. Check each statement and each proof, as in `verify`; one by one only where something is wrong.
    if not _all_formed(key, statements):
        for index, (public, proof) in enumerate(statements):
            try:
                check_public(key, public)
                check_proof(key, proof)
            except (InvalidProof, CurveMismatch) as error:
                raise type(error)(f"statement {index}: {error}") from None
    # 3., 4. Check all equations as one.
    return combination_holds(key, statements, rng)


def find_invalid(
    key: VerificationKey, statements: Sequence[Statement], rng: Callable[[int], bytes] = os.urandom
) -> list[int]:
    """Indices of the statements that are malformed or false, in order.

    Bisects by batches; k false statements among n take about k log2(n / k) batches.
    """
    bad: list[int] = []
    formed: list[int] = []
    for index, (public, proof) in enumerate(statements):
        try:
            check_public(key, public)
            check_proof(key, proof)
        except (InvalidProof, CurveMismatch):
            bad.append(index)
        else:
            formed.append(index)
    false = bisected(formed, lambda some: combination_holds(key, [statements[i] for i in some], rng))
    return sorted([*bad, *false])


def bisected(formed: list[int], hold: Callable[[list[int]], bool]) -> list[int]:
    """Those among the indices `formed` that do not hold; `hold` says whether all of some do."""
    bad, pending = [], [formed]
    while pending:
        group = pending.pop()
        if hold(group):
            continue
        if len(group) == 1:
            bad.extend(group)
        else:
            pending += [group[: len(group) // 2], group[len(group) // 2 :]]
    return bad


def combination_holds(
    key: VerificationKey,
    statements: Sequence[Statement],
    rng: Callable[[int], bytes],
    beside: Sequence[Words] | None = None,
) -> bool:
    """Whether a random linear combination of the equations of well-formed statements holds. `beside` has a member of G1
    for each statement, which is added to what `ic` gives."""
    if not statements:
        return True
    # A random coefficient rho_j for each equation; the right-hand sides then share their pairings:
    #    prod_j e(rho_j A_j, B_j) = e(sum_j rho_j alpha, beta) e(sum_j rho_j L_j, gamma) e(sum_j rho_j C_j, delta).
    curve, r = key.curve, key.curve.fr.modulus
    random = rng(COEFFICIENT_BYTES * len(statements))
    rho = [
        int.from_bytes(random[i : i + COEFFICIENT_BYTES], "little") for i in range(0, len(random), COEFFICIENT_BYTES)
    ]
    total = sum(rho)
    weights = [
        sum(c * public[i] for c, (public, _) in zip(rho, statements, strict=True)) % r for i in range(key.n_public)
    ]
    a = scale_g1(curve, np.stack([proof.a for _, proof in statements]), pack(rho, 2))
    alpha = combine_g1(curve, key.alpha1[None], scalars_from_ints(curve.fr, [total]))
    inputs = combine_g1(curve, key.ic, scalars_from_ints(curve.fr, (total, *weights)))
    factors = scalars_from_ints(curve.fr, rho)
    if beside is not None:
        inputs = add(curve, Group.G1, inputs, combine_g1(curve, np.stack(beside), factors))
    c = combine_g1(curve, np.stack([proof.c for _, proof in statements]), factors)
    # One Miller loop over n + 3 pairs, one final exponentiation.
    g1 = np.stack([*a, *(neg(curve, Group.G1, point) for point in (alpha, inputs, c))])
    g2 = np.stack([*(proof.b for _, proof in statements), key.beta2, key.gamma2, key.delta2])
    return pairing_product_is_one(curve, g1, g2)


def check_public(key: VerificationKey, public: Sequence[int]) -> None:
    """Raise InvalidProof unless there is one canonical scalar for each public input of the key."""
    if len(public) != key.n_public:
        raise InvalidProof(f"{count_of(len(public), 'public value')}, the key has {key.n_public}")
    for index, value in enumerate(public):
        if not isinstance(value, int) or not 0 <= value < key.curve.fr.modulus:
            raise InvalidProof(f"public value {index} is not in the scalar field of {key.curve.title}")


def _all_formed(key: VerificationKey, statements: Sequence[Statement]) -> bool:
    """Whether all statements and proofs are well formed. All points of a group are checked in one call: each call lets
    other threads have the interpreter, and waits until they give it back."""
    if not statements:
        return True
    try:
        for public, _ in statements:
            check_public(key, public)
    except InvalidProof:
        return False
    if any(proof.curve != key.curve for _, proof in statements):
        return False
    g1 = np.stack([point for _, proof in statements for point in (proof.a, proof.c)])
    g2 = np.stack([proof.b for _, proof in statements])
    return all(first_invalid_point(key.curve, *each) is None for each in ((Group.G1, g1), (Group.G2, g2)))


def check_proof(key: VerificationKey, proof: Groth16Proof) -> None:
    """Raise InvalidProof unless the points of `proof` are members of their groups, CurveMismatch for another curve."""
    if proof.curve != key.curve:
        raise CurveMismatch(f"a proof over {proof.curve.title} under a key over {key.curve.title}")
    members: tuple[tuple[str, Group, Words], ...] = (
        ("A", Group.G1, proof.a),
        ("B", Group.G2, proof.b),
        ("C", Group.G1, proof.c),
    )
    for name, group, point in members:
        if first_invalid_point(key.curve, group, point[None]) is not None:
            raise InvalidProof(
                f"{name} is not a point of {key.curve.title} {group.name}"
                " (coordinates not canonical, off the curve, or outside the subgroup)"
            )
