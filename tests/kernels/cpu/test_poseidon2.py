"""Poseidon2 against known answers of two public sources, and its constants against the LFSR that they come from."""

from __future__ import annotations

import re
from pathlib import Path

import kernels
from tests.support import plain_poseidon2 as plain

PLONKY3_INPUT = """
    4d3f967fab9d4979 57e1fba55677697e 57429a86e75a3774 31d379f3a592b5eb 497232e1b648e3f1 325a7db57173c39e
    a802252d78bee916 8920f55e154adef8 a1225bc9c7913658 d687be5097ffd038 89f514ef0c913e48 21fd4a9cf548cd84
    570a1586ada436ff 46bfbf38ccd740ae 23651b3f3ab26484 e90f3b02127fa552"""
PLONKY3_OUTPUT = """
    f0f7717837c7032a f12fbcc838feb15b d8661f6fa4165ad8 351cdc546760d1a9 99474334bf02445f 46fc4e9ceb376d6a
    4601808321fcd920 c58bfd0342dc60df b7f3acd43f3c029c 5c7afa6a6997dfc5 ecbef8b82906c887 d490e3b4e945d87c
    31866766b83ebe0b b32d52f6e7a5bea2 9522431667b3c5f9 eaf5638a69518f65"""
"""Plonky3, goldilocks/src/poseidon2.rs, `test_default_goldilocks_poseidon2_width_16`, version 0.8.0."""

PIL2_DIAGONAL = """
    de9b91a467d6afc0 c5f16b9c76a9be17 0ab0fef2d540ac55 3001d27009d05773 ed23b1f906d3d9eb 5ce73743cba97054
    1c3bab944af4ba24 2faa105854dbafae 53ffb3ae6d421a10 bcda9df8884ba396 fc1273e4a31807bb c77952573d5142c0
    56683339a819b85e 328fcbd8f0ddc8eb b5101e303fce9cb7 774487b8c40089bb"""
PIL2_OUTPUT = """
    85c54702470d9756 aa53c7a7d52d9898 285128096efb0dd7 f3fde5edd3050ac8 c7b65efd040df908 4be3f6c467f57ae9
    274e9a67b41754fb 0f7d39cd5de94dac d0224b9794d0b78c 372f6139570042e1 ce6e8a93dc4ec26c ace65e30a4daf7af
    016f2824cc1ba3db 2e8f3af37c434dec c80831bb6e09da01 3a7d670bf1a86ee8"""
"""pil2-proofman, pil2-stark/src/goldilocks/tests/test_helpers.hpp: the permutation of 0 to 15 under the same constants
and other linear layers."""


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def test_the_reference_permutes_as_plonky3() -> None:
    assert plain.permute(words(PLONKY3_INPUT)) == words(PLONKY3_OUTPUT)


def test_the_reference_permutes_as_pil2_under_its_layers() -> None:
    assert plain.permute(range(16), plain.PAPER, words(PIL2_DIAGONAL)) == words(PIL2_OUTPUT)


def test_the_kernels_have_the_constants_of_the_lfsr() -> None:
    """The permutation itself is compared with the reference by every test of trees under Poseidon2."""
    text = (Path(kernels.__file__).parent / "include" / "hash" / "poseidon2.h").read_text()
    tables = re.findall(r"u64 (\w+)\[[^]]*\] = \{([^}]*)\}", text)
    found = {name: [int(word[2:18], 16) for word in re.findall(r"0x[0-9A-F]{16}ull", table)] for name, table in tables}
    half = plain.WIDTH * plain.FULL // 2
    first, partial, last = (plain.CONSTANTS[a:b] for a, b in ((0, half), (half, -half), (-half, None)))
    diagonal = [x % plain.P for x in plain.DIAGONAL]
    assert found == {"FULL_CONSTANTS": first + last, "PARTIAL_CONSTANTS": partial, "DIAGONAL": diagonal}
