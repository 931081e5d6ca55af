"""Makes an aggregate of Groth16 proofs: SnarkPack (eprint 2021/529), section 4, with the transcript of `transcript`.

The proofs are public, and so is everything here. An aggregate of proofs of which one is false does not verify.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.errors import InvalidProof, UsageError
from distprove.groth16.aggregate.keys import coefficients, quotient
from distprove.groth16.aggregate.proof import Aggregate, Final, Round, Side
from distprove.groth16.aggregate.srs import Srs
from distprove.groth16.aggregate.transcript import Transcript
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.curves import Group
from kernels.maths.encoding import scalars_from_ints


def aggregate(srs: Srs, proofs: Sequence[Groth16Proof], included: bytes, backend: Backend) -> Aggregate:
    """Aggregate 2^l >= 2 proofs; `included` is what binds their statement. Raises UsageError, InvalidProof."""
    n, curve = len(proofs), srs.curve
    if n < 2 or n & (n - 1) or n > srs.n:
        raise UsageError(f"an aggregate is of a power of two of proofs, from 2 to the {srs.n} of the keys, not of {n}")
    if any(proof.curve is not curve for proof in proofs):
        raise InvalidProof(f"a proof is not over {curve.title}, the curve of the aggregation keys")
    p = curve.fr.modulus
    inner, put = backend.inner_products, backend.to_device

    def scalars(values: Sequence[int]) -> Array:
        return put(scalars_from_ints(curve.fr, values))

    def combined(group: Group, points: Array, values: Sequence[int]) -> Words:
        table = backend.groups.load_points(curve, group, points, memory=int(points.nbytes))
        return np.asarray(backend.groups.msm(table, scalars(values)).result())

    # 1. Commit to A and B, and to C, under the keys v and w of both ceremonies.
    a, b, c = (put(np.stack([getattr(proof, name) for proof in proofs])) for name in "abc")
    v, w = [put(key) for key in srs.v(n)], [put(key) for key in srs.w(n)]
    commitments = inner.pairing_products(
        curve, [*([(a, v[i]), (w[i], b)] for i in range(2)), *([(c, v[i])] for i in range(2))]
    )
    com_ab, com_c = commitments[:2], commitments[2:]
    # 2. Combine the proofs by the powers of r; w takes the inverse powers, so that the commitment stays that of B.
    transcript = Transcript(curve)
    r = transcript.combination(com_ab, com_c, included)
    r_powers = _powers(r, n, p)
    b = inner.scaled(curve, Group.G2, b, scalars(r_powers))
    inverse_powers = scalars(_powers(pow(r, -1, p), n, p))
    w = [inner.scaled(curve, Group.G1, key, inverse_powers) for key in w]
    ip_ab = inner.pairing_products(curve, [[(a, b)]])[0]
    agg_c = combined(Group.G1, c, r_powers)
    transcript.products(ip_ab, agg_c)
    # 3. Fold all vectors in half, round by round, and tell the cross terms of each.
    rounds: list[Round] = []
    challenges: list[int] = []
    while len(a) > 1:
        half = len(a) // 2
        left, right = slice(0, half), slice(half, None)
        products = inner.pairing_products(
            curve,
            [
                product
                for one, other in ((right, left), (left, right))
                for product in (
                    [(a[one], b[other])],
                    *([(a[one], v[i][other]), (w[i][one], b[other])] for i in range(2)),
                    *([(c[one], v[i][other])] for i in range(2)),
                )
            ],
        )
        values = Round(
            Side(products[:5], combined(Group.G1, c[right], r_powers[left])),
            Side(products[5:], combined(Group.G1, c[left], r_powers[right])),
        )
        inverse = transcript.fold(values)
        x = pow(inverse, -1, p)
        a, c, *w = inner.folded(curve, Group.G1, (a, c, *w), x)
        b, *v = inner.folded(curve, Group.G2, (b, *v), inverse)
        r_powers = [(low + inverse * high) % p for low, high in zip(r_powers[left], r_powers[right], strict=True)]
        rounds.append(values)
        challenges.append(x)
    final = Final(*(backend.to_host(points)[0] for points in (a, b, c)), *(_both(backend, key) for key in (v, w)))
    # 4. Open the folded keys as polynomials in the secrets, at a point that nobody could choose.
    z = transcript.opening(final, rounds[-1])
    inverses = [pow(x, -1, p) for x in challenges]
    q_v = quotient(coefficients(inverses, 1, p), z, p)
    q_w = quotient([0] * n + coefficients(challenges, pow(r, -1, p), p), z, p)
    g1, g2 = srs.powers(Group.G1, len(q_w)), srs.powers(Group.G2, len(q_v))
    return Aggregate(
        curve=curve,
        com_ab=com_ab,
        com_c=com_c,
        ip_ab=ip_ab,
        agg_c=agg_c,
        rounds=tuple(rounds),
        final=final,
        opening_v=np.stack([combined(Group.G2, put(powers), q_v) for powers in g2]),
        opening_w=np.stack([combined(Group.G1, put(powers), q_w) for powers in g1]),
    )


def _powers(base: int, n: int, modulus: int) -> list[int]:
    out = [1]
    while len(out) < n:
        out.append(out[-1] * base % modulus)
    return out


def _both(backend: Backend, keys: Sequence[Array]) -> Words:
    return np.concatenate([backend.to_host(key) for key in keys])
