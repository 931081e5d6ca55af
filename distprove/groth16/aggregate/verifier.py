"""Verifies an aggregate of Groth16 proofs: the steps of `prover`, and every check in one product of pairings.

A check that does not hold leaves a factor of the target group other than one. All checks but one are raised to 128-bit
powers that the prover cannot foresee, so that factors cancel with a probability of at most 2^-128 (Bellare, Garay,
Rabin, EUROCRYPT 1998).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np

from distprove.errors import CurveMismatch, InvalidProof
from distprove.groth16.aggregate.keys import evaluate
from distprove.groth16.aggregate.proof import Aggregate
from distprove.groth16.aggregate.srs import VerifierSrs
from distprove.groth16.aggregate.transcript import challenges
from distprove.groth16.elements import first_not_canonical
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words
from distprove.groth16.verifier import check_public
from distprove.host.beside import begin
from distprove.wanted import require_wanted
from kernels.cpu.fields import evaluate_columns
from kernels.cpu.group import neg
from kernels.cpu.pairing import combine_g1, pairing_product
from kernels.cpu.target_group import product_of_powers
from kernels.host.units import count_of
from kernels.maths.curves import Group
from kernels.maths.encoding import generator, pack, scalars_from_ints, unpack

_COEFFICIENT_BYTES = 16


def verify(
    key: VerificationKey,
    srs: VerifierSrs,
    public: Sequence[Sequence[int]],
    included: bytes,
    aggregate: Aggregate,
    *,
    threads: int = 1,
    rng: Callable[[int], bytes] = os.urandom,
) -> bool:
    """Whether the aggregate shows, for the public values of each proof, a witness under `key`.

    Those that pad them to a power of two repeat the last. `included` is what binds the statement (`jobs.included`);
    `aggregate` is one that `Aggregate.from_bytes` made, whose elements are members. `rng(n)` returns n bytes that no
    maker of the aggregate can foresee.

    Raises InvalidProof for a number of proofs that is not the aggregate's and for public values out of range,
    CurveMismatch, CalledOff.
    """
    curve, n = key.curve, aggregate.n
    if not curve is srs.curve is aggregate.curve:
        raise CurveMismatch("the aggregate, its keys and the verification key are not over one curve")
    check_count(aggregate, len(public))
    require_wanted()
    values = _public_values(key, public)
    p = curve.fr.modulus
    r, inverses, z = challenges(aggregate, included)
    xs = [pow(inverse, -1, p) for inverse in inverses]
    final = aggregate.final

    def combination(*terms: tuple[int, Words]) -> Words:
        factors, points = zip(*terms, strict=True)
        return combine_g1(curve, np.stack(points), scalars_from_ints(curve.fr, factors))

    # 1. The product of C and the powers of r, folded by all challenges, is that of what both are folded into.
    folded_c = [(1, aggregate.agg_c)]
    for x, inverse, terms in zip(xs, inverses, aggregate.rounds, strict=True):
        folded_c += [(x, terms.left.z_c), (inverse, terms.right.z_c)]
    folded_r = evaluate(inverses, 1, r, p)
    if not np.array_equal(combination(*folded_c), combination((folded_r, final.c))):
        return False
    # 2. The other checks, each with its coefficient:
    #    v:   e(g, v - h^f(z)) = e(g^s - g^z, opening)        for s = alpha, beta
    #    w:   e(w - g^f(z), h) = e(opening, h^s - h^z)        for s = alpha, beta
    #    Z:   e(A, B) = the folded products of A and B
    #    T:   e(A, v) e(w, B) = the folded commitments to A and B       for both keys
    #    U:   e(C, v) = the folded commitments to C                      for both keys
    #    Groth16, summed with the powers of r: e(alpha, beta)^s e(L, gamma) e(C, delta) = the product of A and B
    v_at_z = evaluate(inverses, 1, z, p)
    w_at_z = pow(z, n, p) * evaluate(xs, pow(r, -1, p), z, p) % p
    coefficients = _coefficients(9, rng)
    for_v, for_w, for_z, for_t, for_u = (
        coefficients[:2],
        coefficients[2:4],
        coefficients[4],
        coefficients[5:7],
        coefficients[7:],
    )
    # 3. Their right sides, folded by the same challenges, beside what follows.
    per_side = (for_z, *for_t, *for_u)
    elements = [aggregate.ip_ab[None], aggregate.com_ab, aggregate.com_c]
    exponents = [(for_z + 1) % p, *for_t, *for_u]
    for x, inverse, terms in zip(xs, inverses, aggregate.rounds, strict=True):
        elements += [terms.left.targets, terms.right.targets]
        exponents += [c * y % p for y in (x, inverse) for c in per_side]
    factors = np.concatenate(elements), scalars_from_ints(curve.fr, exponents)
    right = begin(threads, lambda: product_of_powers(curve, *factors, threads))
    # 4. Their left sides as one product, with one pairing for each point of G2.
    g1, g2 = generator(curve, Group.G1), generator(curve, Group.G2)
    powers = [pow(r, j, p) for j in (len(public), n)]
    total, padding = ((power - 1) * pow(r - 1, -1, p) % p for power in (powers[1], powers[0]))
    sums = evaluate_columns(curve.fr, values, r)  # the last proof also stands for the padding
    weights = [one + (total - padding) * last for one, last in zip(sums, unpack(values[-1]), strict=True)]
    inputs = combine_g1(curve, key.ic, scalars_from_ints(curve.fr, (total, *weights)))
    pairs = [
        (combination((total, key.alpha1)), key.beta2),
        (inputs, key.gamma2),
        (aggregate.agg_c, key.delta2),
        (combination((for_z, final.a), (for_t[0], final.w[0]), (for_t[1], final.w[1])), final.b),
        (
            combination(
                ((sum(for_v) * -v_at_z - sum(for_w) * w_at_z) % p, g1),
                *zip(for_w, final.w, strict=True),
                *((c * z % p, point) for c, point in zip(for_w, aggregate.opening_w, strict=True)),
            ),
            g2,
        ),
    ]
    for i, (s1, s2) in enumerate(((srs.alpha1, srs.alpha2), (srs.beta1, srs.beta2))):
        pairs += [
            (combination((for_v[i], g1), (for_t[i], final.a), (for_u[i], final.c)), final.v[i]),
            (combination((p - for_v[i], s1), (for_v[i] * z % p, g1)), aggregate.opening_v[i]),
            (neg(curve, Group.G1, combination((for_w[i], aggregate.opening_w[i]))), s2),
        ]
    require_wanted()
    left = pairing_product(curve, np.stack([one for one, _ in pairs]), np.stack([two for _, two in pairs]))
    return np.array_equal(left.reshape(-1), right().reshape(-1))


def check_count(aggregate: Aggregate, count: int) -> None:
    """Raise InvalidProof unless `count` proofs are padded to as many as the aggregate is of."""
    n = aggregate.n
    if not n // 2 < count <= n and not (n == 2 and count == 1):
        raise InvalidProof(f"an aggregate of {count_of(n, 'proof')}, padding included, cannot be of {count}")


def _public_values(key: VerificationKey, public: Sequence[Sequence[int]]) -> Words:
    """The public values, (proofs, values of each, limbs), not in Montgomery form. Raises InvalidProof."""
    fr, count = key.curve.fr, key.n_public
    flat = list(chain.from_iterable(public))
    if set(map(len, public)) <= {count} and set(map(type, flat)) <= {int}:
        with suppress(OverflowError):  # negative, or longer than an element
            data = b"".join([value.to_bytes(fr.bytes, "little") for value in flat])
            words = np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(-1, fr.limbs)
            if first_not_canonical(fr, words) is None:
                return words.reshape(len(public), count, fr.limbs)
    for index, values in enumerate(public):  # to say which
        try:
            check_public(key, values)
        except InvalidProof as error:
            raise InvalidProof(f"proof {index}: {error}") from None
    return pack(flat, fr.limbs).reshape(len(public), count, fr.limbs)  # integers of another type, such as bool


def _coefficients(count: int, rng: Callable[[int], bytes]) -> list[int]:
    """Random numbers of 128 bits, none of which is zero."""
    drawn = [int.from_bytes(rng(_COEFFICIENT_BYTES), "little") for _ in range(count)]
    return drawn if all(drawn) else _coefficients(count, rng)
