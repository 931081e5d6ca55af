"""proof.json, public.json and verification_key.json: written byte for byte as by snarkjs 0.7.6, and read strictly.

A G1 point is [x, y, "1"], a G2 point [[x0, x1], [y0, y1], ["1", "0"]], infinity has y = 1 and z = 0. Field elements
and public values are decimal strings. Reading accepts exactly this form with any spacing: no numbers, no hexadecimal,
no leading zeros, no projective points, nothing beyond the modulus, no key twice, no unknown key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from distprove.errors import CurveMismatch, FormatError, InvalidKey, UsageError
from distprove.formats import jsontext
from distprove.formats.files import read_bounded, write_atomically
from distprove.groth16.keys import VerificationKey, known_curve
from distprove.groth16.points import Words, is_infinity
from distprove.groth16.proof import Groth16Proof
from distprove.system import PartitionProof
from kernels.cpu.pairing import pairing_product
from kernels.host.units import count_of
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import field_to_ints, point_from_ints, point_to_ints

MAX_PROOF_BYTES = 1 << 14
"""Maximum size of proof.json, which is usually under 2 KiB."""
MAX_LIST_BYTES = 1 << 24
"""Maximum size of public.json and verification_key.json: more than any circuit needs, and little memory."""

_PROOF = {"pi_a": ("a", Group.G1), "pi_b": ("b", Group.G2), "pi_c": ("c", Group.G1)}
_KEY = {
    "vk_alpha_1": ("alpha1", Group.G1),
    "vk_beta_2": ("beta2", Group.G2),
    "vk_gamma_2": ("gamma2", Group.G2),
    "vk_delta_2": ("delta2", Group.G2),
}
"""What snarkjs calls the points of a proof and of a key: our names and the groups."""
_DECIMAL = re.compile(r"0|[1-9][0-9]*", re.ASCII)


# -- proof.json ------------------------------------------------------------------------------------------------------


def proof_to_dict(proof: Groth16Proof | PartitionProof) -> dict[str, Any]:
    """A proof, or that of a partition of a job, in the shape of snarkjs's proof.json: what `json.dumps` takes, and
    `snarkjs.groth16.verify` beside the public values as strings. Raises UsageError for one with commitments."""
    if isinstance(proof, PartitionProof):
        if "commitments" in proof.data:
            raise UsageError(f"partition {proof.name}: a proof with commitments, which snarkjs has no form for")
        proof = Groth16Proof.from_dict(proof.data)
    curve = proof.curve
    return {
        **{name: _point_to_json(curve, group, getattr(proof, ours)) for name, (ours, group) in _PROOF.items()},
        "protocol": "groth16",
        "curve": curve.name,
    }


def format_proof(proof: Groth16Proof) -> str:
    """Format a proof as the text of proof.json."""
    return _format(proof_to_dict(proof))


def parse_proof(data: bytes, curve: Curve | None = None, what: str = "proof.json") -> Groth16Proof:
    """Parse the text of proof.json as `proof_from_dict` does its content."""
    _check_size(data, MAX_PROOF_BYTES, what)
    return proof_from_dict(_load(data, what), curve, what)


def proof_from_dict(top: Any, curve: Curve | None = None, what: str = "proof") -> Groth16Proof:
    """The proof in the shape of snarkjs's proof.json. The points are not checked yet; `verify` does that.

    `curve` is the expected curve. It must be given for a proof by rapidsnark, which leaves out the curve's name. Raises
    FormatError or CurveMismatch.
    """
    _check_object(top, {*_PROOF, "protocol"}, {"curve"}, what)
    _check_protocol(top, what)
    if "curve" in top:
        named = _curve(top, what)
        if curve is not None and curve is not named:
            raise CurveMismatch(f"{what}: a proof over {named.title}, expected {curve.title}")
        curve = named
    if curve is None:
        raise FormatError(f"{what}: does not name its curve")
    return Groth16Proof(curve, **_points_of(_PROOF, curve, top, what))


def read_proof(path: Path, curve: Curve | None = None) -> Groth16Proof:
    """Read proof.json as `parse_proof` does. Raises InputError, FormatError or CurveMismatch."""
    return parse_proof(read_bounded(path, MAX_PROOF_BYTES), curve, str(path))


# -- public.json -----------------------------------------------------------------------------------------------------


def format_public(public: Sequence[int]) -> str:
    """Format public values as the text of public.json."""
    return _format([str(v) for v in public])


def parse_public(data: bytes, curve: Curve, what: str = "public.json") -> tuple[int, ...]:
    """Parse the public values of a proof over `curve`, each below the scalar field's modulus. Raises FormatError."""
    _check_size(data, MAX_LIST_BYTES, what)
    top = _load(data, what)
    if not isinstance(top, list):
        raise FormatError(f"{what}: expected a list of decimal strings")
    return tuple(_integer(v, curve.fr.modulus, f"{what}: value {i}") for i, v in enumerate(top))


def read_public(path: Path, curve: Curve) -> tuple[int, ...]:
    """Read public.json as `parse_public` does. Raises InputError or FormatError."""
    return parse_public(read_bounded(path, MAX_LIST_BYTES), curve, str(path))


# -- verification_key.json -------------------------------------------------------------------------------------------


def format_verification_key(key: VerificationKey) -> str:
    """Format a key as the text of verification_key.json. Computes e(alpha, beta), which snarkjs includes."""
    curve = key.curve
    return _format(
        {
            "protocol": "groth16",
            "curve": curve.name,
            "nPublic": key.n_public,
            **{name: _point_to_json(curve, group, getattr(key, ours)) for name, (ours, group) in _KEY.items()},
            "vk_alphabeta_12": _alpha_beta(key),
            "IC": [_point_to_json(curve, Group.G1, p) for p in key.ic],
        }
    )


def parse_verification_key(data: bytes, what: str = "verification_key.json") -> VerificationKey:
    """Parse the text of verification_key.json and check every point.

    vk_alphabeta_12 may be missing; if it is present, it must be e(alpha, beta). Raises FormatError or InvalidKey.
    """
    _check_size(data, MAX_LIST_BYTES, what)
    top = _load(data, what)
    _check_object(top, {*_KEY, "IC", "protocol", "curve", "nPublic"}, {"vk_alphabeta_12"}, what)
    _check_protocol(top, what)
    curve = _curve(top, what)
    ic, n_public = top["IC"], top["nPublic"]
    if not isinstance(ic, list) or not ic or type(n_public) is not int or len(ic) != n_public + 1:
        raise FormatError(f"{what}: IC must be a list of nPublic + 1 points")
    key = VerificationKey(
        curve,
        **_points_of(_KEY, curve, top, what),
        ic=np.stack([_point_from_json(curve, Group.G1, p, f"{what}: IC[{i}]") for i, p in enumerate(ic)]),
    )
    if "vk_alphabeta_12" in top and top["vk_alphabeta_12"] != _alpha_beta(key):
        raise InvalidKey(f"{what}: vk_alphabeta_12 is not the pairing of vk_alpha_1 and vk_beta_2")
    return key


def read_verification_key(path: Path) -> VerificationKey:
    """Read verification_key.json as `parse_verification_key` does. Raises InputError, FormatError or InvalidKey."""
    data = read_bounded(path, MAX_LIST_BYTES)
    try:
        return parse_verification_key(data, str(path))
    except FormatError as error:
        raise FormatError(f"{path}: not a verification_key.json: {str(error).removeprefix(f'{path}: ')}") from None


def write_verification_key(path: Path, key: VerificationKey) -> None:
    """Write verification_key.json, atomically."""
    write_atomically(path, format_verification_key(key).encode())


# -- elements --------------------------------------------------------------------------------------------------------


def _alpha_beta(key: VerificationKey) -> list[list[list[str]]]:
    value = pairing_product(key.curve, key.alpha1[None], key.beta2[None])
    flat = iter(field_to_ints(key.curve.fq, value.reshape(12, -1)))
    return [[[str(next(flat)) for _ in range(2)] for _ in range(3)] for _ in range(2)]


def _point_to_json(curve: Curve, group: Group, point: Words) -> list[Any]:
    coordinates = None if is_infinity(point) else point_to_ints(curve, group, point)
    if group is Group.G1:
        if coordinates is None:
            return ["0", "1", "0"]
        return [*map(str, coordinates), "1"]
    if coordinates is None:
        return [["0", "0"], ["1", "0"], ["0", "0"]]
    x0, x1, y0, y1 = map(str, coordinates)
    return [[x0, x1], [y0, y1], ["1", "0"]]


def _points_of(
    names: Mapping[str, tuple[str, Group]], curve: Curve, top: dict[str, Any], what: str
) -> dict[str, Words]:
    """The points of an object, by our names."""
    return {ours: _point_from_json(curve, group, top[name], f"{what}: {name}") for name, (ours, group) in names.items()}


def _point_from_json(curve: Curve, group: Group, value: Any, what: str) -> Words:
    if not isinstance(value, list) or len(value) != 3:
        raise FormatError(f"{what}: expected three coordinates")
    if group is Group.G2:
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
            raise FormatError(f"{what}: each coordinate of a G2 point is a pair")
        flat = [v for pair in value for v in pair]
        one, infinity = [1, 0], [0, 0, 1, 0, 0, 0]
    else:
        flat, one, infinity = value, [1], [0, 1, 0]
    numbers = [_integer(v, curve.fq.modulus, what) for v in flat]
    coordinates, z = numbers[: -len(one)], numbers[-len(one) :]
    if z == one:
        if not any(coordinates):
            raise FormatError(f"{what}: (0, 0) is no point of the curve")
        return point_from_ints(curve, group, coordinates)
    if numbers == infinity:
        return point_from_ints(curve, group, None)
    raise FormatError(f"{what}: not an affine point (its last coordinate must be 1)")


def _integer(value: Any, modulus: int, what: str) -> int:
    # The length comes first: converting a long string takes time quadratic in it.
    if not isinstance(value, str) or len(value) > len(str(modulus)) or not _DECIMAL.fullmatch(value):
        raise FormatError(f"{what}: expected a decimal string")
    number = int(value)
    if number >= modulus:
        raise FormatError(f"{what}: not below the field's modulus")
    return number


# -- JSON ------------------------------------------------------------------------------------------------------------


def _format(value: Any) -> str:
    return json.dumps(value, indent=1) if value else "[\n]"  # "[\n]" as snarkjs writes it, unlike JSON.stringify


def _load(data: bytes, what: str) -> Any:
    def refuse_number(_: str) -> NoReturn:
        raise FormatError(f"{what}: a number that none of its kind has")

    def small_integer(text: str) -> int:
        return int(text) if len(text) <= 9 else refuse_number(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise FormatError(f"{what}: a key occurs twice")
        return table

    try:
        return jsontext.loads(
            data,
            what,
            object_pairs_hook=unique,
            parse_int=small_integer,
            parse_float=refuse_number,
            parse_constant=refuse_number,
        )
    except json.JSONDecodeError as error:
        raise FormatError(f"{what}: not JSON: {error.msg} at line {error.lineno}") from None


def _check_object(top: Any, required: set[str], optional: set[str], what: str) -> None:
    if not isinstance(top, dict) or not all(isinstance(key, str) for key in top):
        raise FormatError(f"{what}: expected an object")
    missing, unknown = required - top.keys(), top.keys() - required - optional
    if missing:
        raise FormatError(f"{what}: lacks {', '.join(sorted(missing))}")
    if unknown:
        raise FormatError(f"{what}: unknown key {min(unknown)[:32]!r}")


def _check_size(data: bytes, limit: int, what: str) -> None:
    if len(data) > limit:
        raise FormatError(f"{what}: larger than {count_of(limit, 'byte')}")


def _check_protocol(top: dict[str, Any], what: str) -> None:
    if top["protocol"] != "groth16":
        raise FormatError(f"{what}: a protocol other than 'groth16'")


def _curve(top: dict[str, Any], what: str) -> Curve:
    if not isinstance(top["curve"], str):
        raise FormatError(f"{what}: curve must be a string")
    return known_curve(top["curve"], what)
