"""A Solidity contract that verifies the Groth16 proofs of one key, and the calldata of its calls.

Over BN254 the contract uses the precompiled contracts of EIP-196 and EIP-197, and its function is the one of snarkjs's
contracts, so that the calldata of either suits the other. Over BLS12-381 it uses those of EIP-2537.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from distprove.errors import UsageError
from distprove.formats.folder import Folder
from distprove.groth16.job_verifier import plain_key
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words, is_infinity
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.snarkjs import read_verification_key
from distprove.proof import Proof
from kernels.cpu.keccak import keccak256
from kernels.host.units import count_of
from kernels.maths.curves import BN254, Curve, Group
from kernels.maths.encoding import point_to_ints

MOST_PUBLIC = {"bn128": 200, "bls12381": 100}
"""Public values of which a contract, compiled with the default optimiser, stays below EIP-170's 24,576 bytes."""

CONTRACT = "Groth16Verifier.sol"
CALLDATA = "calldata.hex"

_WORD = 32


def write_contracts(proof: Proof, folder: Path, names: Sequence[str]) -> tuple[str, str]:
    """Write the contract of a job's key into a folder, and the calldata of its call into the folder of each partition,
    as hexadecimal digits after 0x. Returns the names of both files. Raises UsageError as `contract` does."""
    text = contract(plain_key(proof, "this contract takes none: gnark's ExportSolidity writes the one that does"))
    with Folder.open_ours(folder) as out:
        out.write_new(CONTRACT, text.encode())
        for name, partition in zip(names, proof.partitions, strict=True):
            with out.folder(name) as own:
                call = calldata(Groth16Proof.from_dict(partition.data), partition.public)
                own.write_new(CALLDATA, f"0x{call.hex()}\n".encode())
    return CONTRACT, CALLDATA


def write_contract_of(key: Path, folder: Path) -> tuple[str, str | None]:
    """Write the contract of a verification_key.json into a folder. Returns the file's name, and why anybody can forge
    proofs under the key, if it shows that. Raises InputError, FormatError, InvalidKey, UsageError."""
    read = read_verification_key(key)
    text = contract(read)
    with Folder.make(folder, private=False) as out:
        out.write_new(CONTRACT, text.encode())
    return CONTRACT, read.weakness


def contract(key: VerificationKey) -> str:
    """The text of a contract `Groth16Verifier` whose `verifyProof` returns whether a proof holds under `key`.

    `verifyProof` returns false for points off their curves or outside of their groups, coordinates not below the
    modulus, and public values not below the groups' order. Raises UsageError for more than MOST_PUBLIC values.
    """
    most = MOST_PUBLIC[key.curve.name]
    if key.n_public > most:
        raise UsageError(
            f"the key has {count_of(key.n_public, 'public input')}, and a contract for more than {most} would "
            f"exceed the size "
            "that Ethereum allows (EIP-170): make one of them the hash of the others"
        )
    body = _bn254(key) if key.curve is BN254 else _bls12381(key)
    return f"""\
// SPDX-License-Identifier: Apache-2.0
// Made by distprove from the verification key with the digest
// {key.digest().hex()}.
pragma solidity >=0.8.4 <0.9.0;

{body}"""


def calldata(proof: Groth16Proof, public: Sequence[int]) -> bytes:
    """The calldata of `verifyProof` for a proof and its public values, in the contract ABI's encoding: selector, then
    the words of A, B, C and the values."""
    curve = proof.curve
    words = [
        *_coordinates(curve, Group.G1, proof.a),
        *_coordinates(curve, Group.G2, proof.b),
        *_coordinates(curve, Group.G1, proof.c),
        *public,
    ]
    selector = keccak256(f"verifyProof({','.join(_types(curve, len(public)))})".encode())[:4]
    return selector + b"".join(word.to_bytes(_WORD, "big") for word in words)


def _types(curve: Curve, n_public: int) -> list[str]:
    points = ["uint256[2]", "uint256[2][2]", "uint256[2]"]
    if curve is not BN254:
        points = ["uint256[4]", "uint256[8]", "uint256[4]"]
    return [*points, *([f"uint256[{n_public}]"] if n_public else [])]


def _coordinates(curve: Curve, group: Group, point: Words, negated: bool = False) -> list[int]:
    """The words that precompiled contracts read for a point: zeros for infinity. EIP-197 has the imaginary part of a
    coordinate first, EIP-2537 the real one, and each in two words."""
    parts = 2 if group is Group.G2 else 1
    affine = None if is_infinity(point) else point_to_ints(curve, group, point)
    numbers = [0] * (2 * parts) if affine is None else list(affine)
    if negated:
        numbers[parts:] = [-y % curve.fq.modulus for y in numbers[parts:]]
    if curve is BN254:
        return [part for at in (0, parts) for part in reversed(numbers[at : at + parts])]
    return [word for number in numbers for word in divmod(number, 1 << 256)]


def _point(name: str, words: Sequence[int]) -> str:
    """The declarations of a point's words as constants NAME_0, NAME_1 and so on."""
    return "\n".join(f"    uint256 private constant {name}_{i} = {word:#066x};" for i, word in enumerate(words))


def _stores(name: str, count: int, place: str, at: int) -> str:
    """The instructions that write a point's words to memory from `at` bytes behind `place` on."""
    offsets = [at + _WORD * i for i in range(count)]
    targets = [f"add({place}, {offset:#x})" if offset else place for offset in offsets]
    return "\n".join(f"            mstore({target}, {name}_{i})" for i, target in enumerate(targets))


def _constants(key: VerificationKey) -> str:
    curve = key.curve
    points = {
        "MINUS_ALPHA": (Group.G1, key.alpha1, True),
        "BETA": (Group.G2, key.beta2, False),
        "MINUS_GAMMA": (Group.G2, key.gamma2, True),
        "MINUS_DELTA": (Group.G2, key.delta2, True),
        **{f"IC{i}": (Group.G1, point, False) for i, point in enumerate(key.ic)},
    }
    shown = [_point(name, _coordinates(curve, *given)) for name, given in points.items()]
    order = f"    uint256 private constant ORDER = {curve.fr.modulus};"
    return "\n".join(["    // The order of the groups. Public values are below it.", order, *shown])


def _signature(key: VerificationKey) -> str:
    names = ["a", "b", "c", *(["publicValues"] if key.n_public else [])]
    given = ",\n".join(
        f"        {type_} calldata {name}" for type_, name in zip(_types(key.curve, key.n_public), names, strict=True)
    )
    return f"""\
    /// Whether A, B and C prove the public values:
    /// e(A, B) e(-alpha, beta) e(sum of IC, -gamma) e(C, -delta) = 1.
    function verifyProof(
{given}
    ) external view returns (bool valid) {{"""


def _bn254(key: VerificationKey) -> str:
    values = [f"calldataload(add(publicValues, {_WORD * i:#x}))" for i in range(key.n_public)]
    terms = "\n".join(
        f"            ok := and(ok, addTerm(sum, IC{i}_0, IC{i}_1, {value}))" for i, value in enumerate(values, 1)
    )
    function = """\
            // Add the product of a public value and the point (x, y) to the sum.
            function addTerm(sum_, x, y, value) -> done {
                mstore(add(sum_, 0x40), x)
                mstore(add(sum_, 0x60), y)
                mstore(add(sum_, 0x80), value)
                done := lt(value, ORDER)
                done := and(done, staticcall(gas(), 7, add(sum_, 0x40), 0x60, add(sum_, 0x40), 0x40))
                done := and(done, staticcall(gas(), 6, sum_, 0x80, sum_, 0x40))
            }
"""
    return f"""\
/// Verifies Groth16 proofs (eprint 2016/260) over BN254 under one key, with the precompiled contracts of
/// EIP-196 (sum 6, product 7) and EIP-197 (pairings 8).
contract Groth16Verifier {{
{_constants(key)}

{_signature(key)}
        assembly ("memory-safe") {{
{function if key.n_public else ""}\
            // Four pairs of points in G1 and G2, of 0xc0 bytes each.
            let pairs := mload(0x40)
            let ok := 1
            // The sum, and behind it a term with its scalar. The third pair's second point overwrites these later.
            let sum := add(pairs, 0x180)
{_stores("IC0", 2, "sum", 0)}
{terms}
            calldatacopy(pairs, a, 0x40)
            calldatacopy(add(pairs, 0x40), b, 0x80)
{_stores("MINUS_ALPHA", 2, "pairs", 0xC0)}
{_stores("BETA", 4, "pairs", 0x100)}
{_stores("MINUS_GAMMA", 4, "pairs", 0x1C0)}
            calldatacopy(add(pairs, 0x240), c, 0x40)
{_stores("MINUS_DELTA", 4, "pairs", 0x280)}
            ok := and(ok, staticcall(gas(), 8, pairs, 0x300, pairs, 0x20))
            valid := and(ok, mload(pairs))
        }}
    }}
}}
"""


def _bls12381(key: VerificationKey) -> str:
    count = key.n_public
    each = "\n".join(
        "\n".join(
            [
                f"            value := calldataload(add(publicValues, {_WORD * i:#x}))",
                "            ok := and(ok, lt(value, ORDER))",
                _stores(f"IC{i + 1}", 4, "terms", 0xA0 * i),
                f"            mstore(add(terms, {0xA0 * i + 0x80:#x}), value)",
            ]
        )
        for i in range(count)
    )
    summed = f"""\
            let terms := add(pairs, 0x600)
            let value
{each}
            ok := and(ok, staticcall(gas(), 0x0c, terms, {0xA0 * count:#x}, terms, 0x80))
{_stores("IC0", 4, "terms", 0x80)}
            ok := and(ok, staticcall(gas(), 0x0b, terms, 0x100, add(pairs, 0x300), 0x80))"""
    return f"""\
/// Verifies Groth16 proofs (eprint 2016/260) over BLS12-381 under one key, with the precompiled contracts of
/// EIP-2537 (sum 0x0b, sum of products 0x0c, pairings 0x0f). A coordinate is two words, the upper one first.
contract Groth16Verifier {{
{_constants(key)}

{_signature(key)}
        assembly ("memory-safe") {{
            // Four pairs of points in G1 and G2, of 0x180 bytes each, and space for the sum's terms behind them.
            let pairs := mload(0x40)
            let ok := 1
{summed if count else _stores("IC0", 4, "pairs", 0x300)}
            calldatacopy(pairs, a, 0x80)
            calldatacopy(add(pairs, 0x80), b, 0x100)
{_stores("MINUS_ALPHA", 4, "pairs", 0x180)}
{_stores("BETA", 8, "pairs", 0x200)}
{_stores("MINUS_GAMMA", 8, "pairs", 0x380)}
            calldatacopy(add(pairs, 0x480), c, 0x80)
{_stores("MINUS_DELTA", 8, "pairs", 0x500)}
            ok := and(ok, staticcall(gas(), 0x0f, pairs, 0x600, pairs, 0x20))
            valid := and(ok, mload(pairs))
        }}
    }}
}}
"""
