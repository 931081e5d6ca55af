"""Keys and proofs made from a known trapdoor, without a circuit: the paper's simulator."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from kernels.cpu import group
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.maths.encoding import generator

# Points of the curve or twist outside the subgroup of order r: x, y (G1) or x0, x1, y0, y1 (G2).
OUTSIDE: dict[tuple[str, Group], tuple[int, ...]] = {
    (BLS12_381.name, Group.G1): (0, 2),
    (BLS12_381.name, Group.G2): (
        1,
        1,
        3690720871793337241455685075743049883097434000553861439128973496444191283866836383567731089800858963424329464681674,
        122693191027751655510194168700308213538794246775313976814212532628791625595109057816964505439501482194282347419502,
    ),
    (BN254.name, Group.G2): (
        2,
        1,
        7292567877523311580221095596750716176434782432868683424513645834767876293070,
        19659275751359636165940301690575149581329631496732780143538578556285923319774,
    ),
}


def multiple(curve: Curve, which: Group, k: int) -> Words:
    """k times the generator, (point_limbs,) affine."""
    return group.mul(curve, which, generator(curve, which), k % curve.fr.modulus)


@dataclass
class Trapdoor:
    """A verification key and what it takes to prove anything under it."""

    key: VerificationKey
    alpha: int
    beta: int
    gamma: int
    delta: int
    ic: list[int]

    def prove(self, public: list[int], seed: int, without_c: bool = False) -> Groth16Proof:
        """A proof of public values: A and B at random, C = (A B - alpha beta - gamma L) / delta; or B at random, and
        A such that C is infinity."""
        curve, rng = self.key.curve, random.Random(seed)
        r = curve.fr.modulus
        a, b = rng.randrange(1, r), rng.randrange(1, r)
        inputs = self.ic[0] + sum(k * v for k, v in zip(self.ic[1:], public, strict=True))
        if without_c:
            a = (self.alpha * self.beta + self.gamma * inputs) * pow(b, -1, r)
        c = (a * b - self.alpha * self.beta - self.gamma * inputs) * pow(self.delta, -1, r)
        return Groth16Proof(
            curve, multiple(curve, Group.G1, a), multiple(curve, Group.G2, b), multiple(curve, Group.G1, c)
        )


def trapdoor(curve: Curve, n_public: int, seed: int = 0) -> Trapdoor:
    """A fresh key for `n_public` inputs."""
    rng = random.Random(f"{curve.name} {n_public} {seed}")
    alpha, beta, gamma, delta = (rng.randrange(1, curve.fr.modulus) for _ in range(4))
    ic = [rng.randrange(1, curve.fr.modulus) for _ in range(n_public + 1)]
    key = VerificationKey(
        curve=curve,
        alpha1=multiple(curve, Group.G1, alpha),
        beta2=multiple(curve, Group.G2, beta),
        gamma2=multiple(curve, Group.G2, gamma),
        delta2=multiple(curve, Group.G2, delta),
        ic=np.stack([multiple(curve, Group.G1, k) for k in ic]),
    )
    return Trapdoor(key, alpha, beta, gamma, delta, ic)
