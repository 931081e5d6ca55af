"""The verification key: the part of the set-up that a verifier needs.

The notation is that of Groth, On the size of pairing-based non-interactive arguments (eprint 2016/260), section 3.2:
[alpha]_1, [beta]_2, [gamma]_2, [delta]_2, and IC_i = [(beta u_i(x) + alpha v_i(x) + w_i(x)) / gamma]_1 for the constant
1 and each public input.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from distprove.errors import FormatError, InvalidKey
from distprove.groth16 import points
from distprove.groth16.points import Words
from distprove.proof import check_fields
from kernels.cpu.pairing import first_invalid_point, pairing_product
from kernels.maths.curves import CURVES, Curve, Group
from kernels.maths.encoding import generator

_DOMAIN = b"distprove/groth16/verification-key/1\x00"
_SINGLE = {"alpha1": Group.G1, "beta2": Group.G2, "gamma2": Group.G2, "delta2": Group.G2}


@dataclass(frozen=True, eq=False)
class VerificationKey:
    """A verification key. Construction checks all points, so every instance is valid.

    Points are affine, (point_limbs,) uint64 in Montgomery form; `ic` is (n_public + 1, point_limbs). Construction
    raises InvalidKey when a point is not canonical, off its curve or outside the subgroup, or when one is infinity:
    under such a key false statements verify, and a public input whose point of `ic` is infinity may have any value.
    """

    curve: Curve
    alpha1: Words = field(repr=False)
    beta2: Words = field(repr=False)
    gamma2: Words = field(repr=False)
    delta2: Words = field(repr=False)
    ic: Words = field(repr=False)

    def __post_init__(self) -> None:
        for name, group in _SINGLE.items():
            checked = self._checked(name, group)
            if checked.shape[0] != 1 or points.is_infinity(checked):
                raise InvalidKey(f"verification key: {name} must be one point other than infinity")
            object.__setattr__(self, name, checked[0])
        object.__setattr__(self, "ic", self._checked("ic", Group.G1))
        if self.ic.shape[0] < 1:
            raise InvalidKey("verification key: ic has no point for the constant 1")
        infinite = np.flatnonzero(~self.ic.any(axis=1))
        if infinite.size:
            raise InvalidKey(f"verification key: ic[{infinite[0]}] is infinity, which no sound key has")

    def _checked(self, name: str, group: Group) -> Words:
        try:
            own = points.as_points(self.curve, group, getattr(self, name))
        except ValueError as error:
            raise InvalidKey(f"verification key: {name}: {error}") from None
        bad = first_invalid_point(self.curve, group, own)
        if bad is not None:
            where = f"{name}[{bad}]" if name == "ic" else name
            raise InvalidKey(
                f"verification key: {where} is not a point of {self.curve.title} {group.name}"
                " (coordinates not canonical, off the curve, or outside the subgroup)"
            )
        return own

    @property
    def n_public(self) -> int:
        """Number of public inputs, without the constant 1."""
        return int(self.ic.shape[0]) - 1

    @cached_property
    def weakness(self) -> str | None:
        """Why anybody can forge proofs under this key, in words, if its points show that; None for other keys.

        A set-up draws secrets that are related by chance only. With delta = gamma, as before the first contribution,
        A = alpha, B = beta, C = -L prove any public values; with gamma = beta, A = alpha + L, B = beta, C = 0 do. Other
        relations, and a known alpha, beta or delta, leave public inputs or the wires of a matrix unbound. gamma may be
        known: snarkjs sets it to one. Under equal IC of two public inputs a proof holds for all with the same sum.
        Relations are looked for up to sign.
        """
        curve = self.curve
        one, one1 = generator(curve, Group.G2), generator(curve, Group.G1)
        for first, a, second, b in (
            ("delta", self.delta2, "gamma, as without contributions", self.gamma2),
            ("delta", self.delta2, "the generator, as without contributions", one),
            ("delta", self.delta2, "beta", self.beta2),
            ("gamma", self.gamma2, "beta", self.beta2),
            ("beta", self.beta2, "the generator", one),
            ("alpha", self.alpha1, "the generator", one1),
        ):
            if np.array_equal(a[: len(a) // 2], b[: len(b) // 2]):  # the abscissas
                return _forgeable(first, second)
        # Inverse values of a pairing share the coefficients of even powers of w.
        alpha = pairing_product(curve, self.alpha1[None], one[None])[0]
        for name in ("beta", "gamma", "delta"):
            if np.array_equal(alpha, pairing_product(curve, one1[None], getattr(self, f"{name}2")[None])[0]):
                return _forgeable("alpha", name)
        abscissas = self.ic[1:, : self.ic.shape[1] // 2]
        _, begin, place = np.unique(abscissas, axis=0, return_index=True, return_inverse=True)
        earlier = begin[place.reshape(-1)]
        for at in np.flatnonzero(earlier != np.arange(len(earlier)))[:1]:
            return (
                f"anybody can change public inputs of proofs under this key: its ic[{at + 1}] equals "
                f"ic[{earlier[at] + 1}] (up to sign)"
            )
        return None

    def digest(self) -> bytes:
        """The key's digest, 32 bytes: SHA-256 of its canonical encoding.

        The encoding is "distprove/groth16/verification-key/1" and a zero byte, the curve's name (snarkjs' spelling) and
        a zero byte, n_public as 4 bytes big-endian, then alpha1, beta2, gamma2, delta2, ic as `points.to_bytes` writes
        them.
        """
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        h = hashlib.sha256(_DOMAIN)
        h.update(self.curve.name.encode() + b"\x00" + self.n_public.to_bytes(4, "big"))
        encoded = self.to_dict()
        for name in (*_SINGLE, "ic"):
            h.update(encoded[name])
        return h.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VerificationKey) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.digest())

    def to_dict(self) -> dict[str, Any]:
        """The key as plain data for MessagePack: the curve's name, and points in the encoding of `points.to_bytes`."""
        groups = {**_SINGLE, "ic": Group.G1}
        encoded = {name: points.to_bytes(self.curve, group, getattr(self, name)) for name, group in groups.items()}
        return {"curve": self.curve.name, **encoded}

    @classmethod
    def from_dict(cls, data: Any) -> VerificationKey:
        """Make the key from what `to_dict` returned, without trusting it. Raises FormatError or InvalidKey."""
        what = "verification key"
        check_fields(data, {"curve": str, **dict.fromkeys((*_SINGLE, "ic"), bytes)}, what)
        curve = known_curve(data["curve"], what)
        single = {n: points.one_from_bytes(curve, group, data[n], f"{what}: {n}") for n, group in _SINGLE.items()}
        return cls(curve, **single, ic=points.from_bytes(curve, Group.G1, data["ic"], f"{what}: ic"))


def _forgeable(first: str, second: str) -> str:
    return f"anybody can forge proofs under this key: its {first} equals {second} (up to sign)"


def known_curve(name: str, what: str) -> Curve:
    """The curve whose name is exactly `name`. Raises FormatError."""
    for curve in CURVES:
        if curve.name == name:
            return curve
    raise FormatError(f"{what}: unknown curve {name[:32]!r}; known: {', '.join(c.name for c in CURVES)}")
