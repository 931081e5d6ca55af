"""Poseidon2 over BN254 against known answers of three public sources, and its constants against a published list."""

from __future__ import annotations

import random
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernels
from kernels.cpu import poseidon2_bn254 as native
from kernels.cpu.poseidon2_bn254 import RATE
from kernels.errors import SizeError
from kernels.host.native import load, variants
from kernels.interface.tree_hash import NODE_TAG, TreeHash
from kernels.maths import poseidon2_bn254 as description
from tests.support import plain_poseidon2_bn254 as plain
from tests.support.plain_poseidon2_bn254 import P, R

HORIZEN_OUTPUT = [
    0x0BB61D24DACA55EEBCB1929A82650F328134334DA98EA4F847F760054F4A3033,
    0x303B6F7C86D043BFCBCC80214F26A30277A15D3F74CA654992DEFE7FF8D03570,
    0x1ED25194542B12EEF8617361C3BA7C52E660B145994427CC86296242CF766EC8,
]
"""The permutation of 0, 1, 2: HorizenLabs/poseidon2, plain_implementations/src/poseidon2/poseidon2.rs, `kats` of
bn256; the same in stellar/rs-soroban-env, `test_poseidon2_bn254_hostfn_success`."""

TACEO = [
    (
        (
            0x2C6422C33190D036A17BD4281738AD60A6B4544C1020DA1C0C84880A0DDC71C4,
            0x245CD98E5AF9A6EBB35945B092C7E877AB9549C8919940250956A0BFEDB457AB,
            0x0B43C424171231016DFE2072518B825A18C759383DBA4E09A47BCD8B1A55DA21,
        ),
        (
            0x0B6F503D74CA8C80934B48D8D9E41C239EA6BCEE17F658D416A0B72FD7DAF1B8,
            0x2845997BB81AD9D29F0B7BA57550CB7160B6930C70C92287207C7B5F65B2814B,
            0x0A97E625F336A7C5E51BB2881E3B4E224F6E2E01AE5D698FA19446DBC407AC3F,
        ),
    ),
    (
        (
            0x124CE2326B4A95FE09743697C1E5C9AC9F6940CAB7221DECFD0162A8873C63EA,
            0x167148C1014F9F1AE03BB93892EC0164C6F65F779B526C3499D7AC374E84AF86,
            0x18C0BADC1C5AA472C434C254786F8E1AA8B519A7EC017DFD20BC1E5DFB820CAA,
        ),
        (
            0x2791FA7CCA97F87CC3DE6CE004BCCF28E3CB631E4FD31D50B38FC79B7E43DBBF,
            0x22E42774E15A97E78D378B0225379ECBCB76060BEEF46E10E4B630BBD256003B,
            0x2E56288AF3D63BE34692074D7DB4CE2F9EDA91F7A55BA60D7661D8C2BFCA9580,
        ),
    ),
]
"""TaceoLabs/taceo-circom-lib, tests/poseidon2_t3.test.js, kat1 and kat2."""

PUBLISHED = "f58a02b261e94419e962e7b72d759d7b4df69f02e25f56aea90f263dc4b03b37"
"""SHA-256 of the 80 constants of `RC3` in HorizenLabs/poseidon2, poseidon2_instance_bn256.rs, at commit 055bde3f, in 32
bytes each, the highest first: all three of a full round, the first of a partial one."""
EDGES = [0, 1, R - 1, R - 2, 2**64 - 1, 2**64, 2**128 - 1, 2**192, 2**253, P, P**3]


def test_known_answers() -> None:
    for permute in (plain.permute, native.permuted):
        assert permute([0, 1, 2]) == HORIZEN_OUTPUT
        for given, expected in TACEO:
            assert permute(given) == list(expected)


@pytest.mark.parametrize("variant", variants())
def test_every_build_permutes_as_the_reference(variant: str) -> None:
    rng, build = random.Random(5), load(variant)
    states = [[rng.choice((rng.randrange(R), rng.choice(EDGES))) for _ in range(3)] for _ in range(40)]
    for state in states:
        words = native.to_words(state)
        build.poseidon2_bn254_permute(words)
        assert native.to_numbers(words) == plain.permute(state)


@pytest.mark.parametrize("variant", variants())
@pytest.mark.parametrize("count", [1, 7, 16, 51])
def test_every_instruction_set_hashes_nodes_as_the_reference(variant: str, count: int) -> None:
    """Many at once, in lanes, with what leaves some over; children are any numbers of 256 bits."""
    rng, build = random.Random(count), load(variant)
    edges = [*EDGES, R, R + 1, 2**255, 2**256 - 1]
    children = [[rng.choice((rng.randrange(2**256), rng.choice(edges))) for _ in range(count)] for _ in range(RATE)]
    words = np.stack([native.to_words(each).reshape(count, 4) for each in children])
    level = np.ascontiguousarray(words.transpose(2, 0, 1)).reshape(-1)
    for instruction_set in build.gl_instruction_sets():
        out = np.empty((4, count), dtype=np.uint64)
        hashing = build.Pool(2), instruction_set, TreeHash.POSEIDON2_BN254.function
        build.gl_parents(*hashing, NODE_TAG, level, 1, RATE, out.reshape(-1))
        found = native.to_numbers(np.ascontiguousarray(out.T).reshape(-1))
        assert found == [plain.node(pair, NODE_TAG) for pair in zip(*children, strict=True)]


def test_the_description_permutes_as_the_reference() -> None:
    def power(x: int, c: int) -> int:
        return pow(x + c, 5, R)

    def add(x: int, y: int) -> int:
        return (x + y) % R

    def scale(x: int, c: int) -> int:
        return c * x % R

    assert description.PERMUTATION.rounds([3, R - 1, 5], power, add, scale) == plain.permute([3, R - 1, 5])
    assert list(description.PERMUTATION.round_constants) == plain.CONSTANTS
    assert len(plain.CONSTANTS) == description.PERMUTATION.powers


def test_the_constants_are_the_published_ones() -> None:
    assert sha256(b"".join(x.to_bytes(32, "big") for x in plain.CONSTANTS)).hexdigest() == PUBLISHED


def test_a_state_of_another_size() -> None:
    with pytest.raises(SizeError):
        native.permuted([0, 1])


def test_the_kernels_have_the_constants_of_the_lfsr() -> None:
    text = (Path(kernels.__file__).parent / "include" / "hash" / "poseidon2_bn254.h").read_text()
    found: dict[str, list[int]] = {}
    for name, table in re.findall(r"u64 (\w+)\[[^]]*\] = \{([^}]*)\}", text):
        words = [int(word, 16) for word in re.findall(r"0x([0-9A-F]{16})ull", table)]
        numbers = [sum(w << 64 * i for i, w in enumerate(words[k : k + 4])) for k in range(0, len(words), 4)]
        found[name] = [x * pow(2**256, -1, R) % R for x in numbers]
    first, partial, last = plain.CONSTANTS[:12], plain.CONSTANTS[12:-12], plain.CONSTANTS[-12:]
    assert found == {"FULL_CONSTANTS": first + last, "PARTIAL_CONSTANTS": partial}
    assert f"MOST = 0x{R // P**3:X}ull" in text


@pytest.mark.parametrize("variant", variants())
def test_digits_are_those_of_the_number(variant: str) -> None:
    """Also where the number is refused, just below and at the bound."""
    rng, build, bound = random.Random(6), load(variant), R // P**3 * P**3
    near = [bound - 1, bound, bound + 1, bound + rng.randrange(R - bound), P**3 - 1, 2**64 * P - 1, (P - 1) << 64]
    numbers = [*EDGES, *near, *(rng.randrange(R) for _ in range(300))]
    for number in numbers:
        out = np.zeros(3, dtype=np.uint64)
        accepted = build.poseidon2_bn254_digits(native.to_words([number]), out)
        assert out.tolist() == [number % P, number // P % P, number // P**2 % P]
        assert accepted == (number < bound) == (plain.digits(number) is not None)
    assert not plain.digits(R - 1)


def as_bytes(*numbers: int) -> Any:
    return np.frombuffer(b"".join(x.to_bytes(32, "little") for x in numbers), dtype=np.uint8).reshape(-1, 32)


def test_a_digest_has_one_encoding() -> None:
    bn254 = TreeHash.POSEIDON2_BN254
    assert bn254.are_digests(as_bytes(0, R - 1, 2**253, (R >> 64 << 64) - 1))
    for number in (R, R + 1, R + 2**64, 2**256 - 1, 2**255):
        assert not bn254.are_digests(as_bytes(5, number))
    assert bn254.are_digests(np.zeros((0, 32), dtype=np.uint8))
    assert TreeHash.POSEIDON2.are_digests(as_bytes(P - 1))
    assert not TreeHash.POSEIDON2.are_digests(as_bytes(P))
    assert TreeHash.KECCAK.are_digests(as_bytes(2**256 - 1))


def test_messages_of_other_lengths_and_kinds_differ() -> None:
    """Zeros at the end are not those that fill a block, and no node is a leaf of its children's words."""
    digests = [plain.sponge([7] + [0] * k) for k in range(13)]
    assert len(set(digests)) == 13
    left, right = plain.sponge([1]), plain.sponge([2])
    halves = [x >> 64 * i & (2**64 - 1) for x in (left, right) for i in range(4)]
    assert len({plain.node([left, right], tag) for tag in (1, 2, 3, 4)} | {plain.sponge(halves)}) == 5
