"""Makes an aggregate of Groth16 proofs: SnarkPack (eprint 2021/529), section 4, with the transcript of `transcript`.

The proofs are public, and so is everything here. An aggregate of proofs of which one is false does not verify.

On a GPU a round of few points takes as long as its slowest thread, however few they are: over BLS12-381 21 ms on an
H200. So the last rounds run on the CPU, and so do the sums of points with scalars, beside the GPU's pairings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.errors import InvalidProof, UsageError
from distprove.groth16.aggregate.keys import coefficients, powers_of, quotient
from distprove.groth16.aggregate.proof import Aggregate, Final, Round, Side
from distprove.groth16.aggregate.srs import Srs
from distprove.groth16.aggregate.transcript import Transcript
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.wanted import require_wanted
from kernels.interface.arrays import Array, Pending
from kernels.interface.backend import Backend
from kernels.maths.curves import Group
from kernels.maths.encoding import scalars_from_ints

HOST_POINTS = 32
"""Most points of a vector in the rounds that run on the CPU beside a GPU. With an H200 and 16 cores, 64 takes as long
and 128 longer."""


def aggregate(
    srs: Srs,
    proofs: Sequence[Groth16Proof],
    included: bytes,
    backend: Backend,
    host: Backend | None = None,
    *,
    host_points: int = HOST_POINTS,
) -> Aggregate:
    """Aggregate 2^l >= 2 proofs; `included` is what binds their statement. Raises UsageError, InvalidProof, CalledOff.

    `host` computes sums, and rounds of at most `host_points` points; without it `backend` does all.
    """
    n, curve = len(proofs), srs.curve
    if n < 2 or n & (n - 1) or n > srs.n:
        raise UsageError(f"an aggregate is of a power of two of proofs, from 2 to the {srs.n} of the keys, not of {n}")
    if any(proof.curve is not curve for proof in proofs):
        raise InvalidProof(f"a proof is not over {curve.title}, the curve of the aggregation keys")
    p = curve.fr.modulus
    at, summing = backend, host or backend  # where the vectors are, and where sums are made

    def scalars(on: Backend, values: Sequence[int]) -> Array:
        return on.to_device(scalars_from_ints(curve.fr, values))

    def combined(group: Group, points: Array, values: Sequence[int]) -> Pending:
        table = summing.groups.load_points(curve, group, points, memory=int(points.nbytes))
        return summing.groups.msm(table, scalars(summing, values))

    def for_sums(points: Array) -> Array:
        return points if summing is at else at.to_host(points)

    # 1. Commit to A and B, and to C, under the keys v and w of both ceremonies.
    require_wanted()
    a, b, c = (at.to_device(np.stack([getattr(proof, name) for proof in proofs])) for name in "abc")
    v, w = [at.to_device(key) for key in srs.v(n)], [at.to_device(key) for key in srs.w(n)]
    products = [*([(a, v[i]), (w[i], b)] for i in range(2)), *([(c, v[i])] for i in range(2))]
    commitments = at.inner_products.pairing_products(curve, products).result()
    com_ab, com_c = commitments[:2], commitments[2:]
    # 2. Combine the proofs by the powers of r; w takes the inverse powers, so that the commitment stays that of B.
    require_wanted()
    transcript = Transcript(curve)
    r = transcript.combination(com_ab, com_c, included)
    r_powers = powers_of(r, n, p)
    summed = for_sums(c)
    b = at.inner_products.scaled(curve, Group.G2, b, scalars(at, r_powers))
    inverse_powers = scalars(at, powers_of(pow(r, -1, p), n, p))
    w = [at.inner_products.scaled(curve, Group.G1, key, inverse_powers) for key in w]
    pending = at.inner_products.pairing_products(curve, [[(a, b)]])
    agg_c = combined(Group.G1, summed, r_powers).result()
    ip_ab = pending.result()[0]
    transcript.products(ip_ab, agg_c)
    # 3. Fold all vectors in half, round by round, and tell the cross terms of each.
    rounds: list[Round] = []
    challenges: list[int] = []
    while len(a) > 1:
        require_wanted()
        count, half = len(a), len(a) // 2
        left, right = slice(0, half), slice(half, None)
        if at is not summing and count <= host_points:
            a, b, c, *keys = (at.to_host(points) for points in (a, b, c, *v, *w))
            v, w, at = keys[:2], keys[2:], summing
        pending = at.inner_products.pairing_products(
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
        # Sums are made beside the pairings, whose final exponentiations come last.
        sums = [
            combined(Group.G1, summed[right], r_powers[left]),
            combined(Group.G1, summed[left], r_powers[right]),
        ]
        z_left, z_right = (one.result() for one in sums)
        targets = pending.result()
        values = Round(Side(targets[:5], z_left), Side(targets[5:], z_right))
        inverse = transcript.fold(values)
        x = pow(inverse, -1, p)
        r_powers = [(low + inverse * high) % p for low, high in zip(r_powers[left], r_powers[right], strict=True)]
        require_wanted()
        a, c, *w = at.inner_products.folded(curve, Group.G1, (a, c, *w), x)
        summed = for_sums(c)
        b, *v = at.inner_products.folded(curve, Group.G2, (b, *v), inverse)
        rounds.append(values)
        challenges.append(x)
    final = Final(*(at.to_host(points)[0] for points in (a, b, c)), *(_both(at, key) for key in (v, w)))
    # 4. Open the folded keys as polynomials in the secrets, at a point that nobody could choose.
    require_wanted()
    z = transcript.opening(final, rounds[-1])
    inverses = [pow(x, -1, p) for x in challenges]
    q_v = quotient(coefficients(inverses, 1, p), z, p)
    q_w = quotient([0] * n + coefficients(challenges, pow(r, -1, p), p), z, p)
    g1, g2 = srs.powers(Group.G1, len(q_w)), srs.powers(Group.G2, len(q_v))
    opening_v = [combined(Group.G2, powers, q_v) for powers in g2]
    opening_w = [combined(Group.G1, powers, q_w) for powers in g1]
    opened = [np.stack([one.result() for one in both]) for both in (opening_v, opening_w)]
    return Aggregate(
        curve=curve,
        com_ab=com_ab,
        com_c=com_c,
        ip_ab=ip_ab,
        agg_c=agg_c,
        rounds=tuple(rounds),
        final=final,
        opening_v=opened[0],
        opening_w=opened[1],
    )


def _both(backend: Backend, keys: Sequence[Array]) -> Words:
    return np.concatenate([backend.to_host(key) for key in keys])
