"""A Groth16 proof, which consists of three points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from distprove.errors import InvalidProof
from distprove.groth16 import points
from distprove.groth16.keys import known_curve
from distprove.groth16.points import Words
from distprove.proof import check_fields
from kernels.maths.curves import Curve, Group

_POINTS = {"a": Group.G1, "b": Group.G2, "c": Group.G1}
_FIELDS: dict[str, type] = {"curve": str, **dict.fromkeys(_POINTS, bytes)}


@dataclass(frozen=True, eq=False)
class Groth16Proof:
    """A Groth16 proof: the affine points [A]_1, [B]_2, [C]_1, each (point_limbs,) uint64 in Montgomery form.

    Construction checks only shapes and raises InvalidProof. The verifier checks that the points are members of their
    groups, because a bad proof from a faulty device must be representable to be rejected.
    """

    curve: Curve
    a: Words = field(repr=False)
    b: Words = field(repr=False)
    c: Words = field(repr=False)

    def __post_init__(self) -> None:
        for name, group in _POINTS.items():
            try:
                own = points.as_points(self.curve, group, getattr(self, name))
            except ValueError as error:
                raise InvalidProof(f"proof: {name}: {error}") from None
            if own.shape[0] != 1:
                raise InvalidProof(f"proof: {name} must be one point")
            object.__setattr__(self, name, own[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groth16Proof) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.curve.name, self.a.tobytes(), self.b.tobytes(), self.c.tobytes()))

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain data for MessagePack: the curve's name, and points encoded by `points.to_bytes`."""
        encoded = {name: points.to_bytes(self.curve, group, getattr(self, name)) for name, group in _POINTS.items()}
        return {"curve": self.curve.name, **encoded}

    @classmethod
    def from_dict(cls, data: Any) -> Groth16Proof:
        """Make a proof from what `to_dict` returned; its points are not checked yet. Raises FormatError."""
        check_fields(data, _FIELDS, "proof")
        curve = known_curve(data["curve"], "proof")
        return cls(curve, **{n: points.one_from_bytes(curve, g, data[n], f"proof: {n}") for n, g in _POINTS.items()})

    @classmethod
    def from_dicts(cls, proofs: Sequence[Any]) -> list[Groth16Proof]:
        """Make proofs as `from_dict` does. All points of a group are decoded together: NumPy takes as long for one."""
        for data in proofs:
            check_fields(data, _FIELDS, "proof")
        names = {data["curve"] for data in proofs}
        if len(names) != 1:
            return [cls.from_dict(data) for data in proofs]
        curve, found = known_curve(names.pop(), "proof"), {}
        for name, group in _POINTS.items():
            each = [data[name] for data in proofs]
            if {*map(len, each)} != {points.size(curve, group)}:
                return [cls.from_dict(data) for data in proofs]  # one of them raises
            found[name] = points.from_bytes(curve, group, b"".join(each), f"proof: {name}")
        return [cls(curve, a, b, c) for a, b, c in zip(found["a"], found["b"], found["c"], strict=True)]
