"""Paths of trees of all three layouts are read and verified; nodes that paths share are hashed once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from distprove.circuits.filecoin.hashing import hash_poseidon
from distprove.circuits.filecoin.inputs import elements_of, sparse_trees
from distprove.errors import FormatError, VanillaMismatch
from distprove.filecoin.sectors import SIZES, tree_d, tree_r
from distprove.filecoin.trees import check_paths, read_path
from tests.filecoin.made_c1 import path_text


def hashed(nodes: Sequence[Sequence[int]]) -> list[int]:
    return [hash_poseidon(children) for children in nodes]


@pytest.mark.parametrize(
    ("size", "tag", "parts"),
    [
        ("512MiB", "Single", {"path": 8}),
        ("32GiB", "Sub", {"base_proof": 9, "sub_proof": 1}),
        ("64GiB", "Top", {"base_proof": 9, "sub_proof": 1, "top_proof": 1}),
    ],
)
def test_paths_of_a_layout(size: str, tag: str, parts: dict[str, int]) -> None:
    shape, random = tree_r(size), Random(size)
    assert (shape.tag, {name: len(arities) for name, arities in shape.parts}) == (tag, parts)
    leaves = {random.randrange(shape.leaves): elements_of(random)() for _ in range(2)}
    (tree,) = sparse_trees(shape.arities, [leaves], hashed, elements_of(random))
    texts = {index: path_text(tree, shape, index, leaf) for index, leaf in leaves.items()}
    paths = [(f"leaf {index}", read_path(text, shape)) for index, text in texts.items()]
    assert [path.index for _, path in paths] == list(leaves)

    counts: list[int] = []

    def counting(nodes: Sequence[Sequence[int]]) -> list[int]:
        counts.append(len(nodes))
        return hashed(nodes)

    check_paths(paths, shape, counting)
    assert len(counts) == len(shape.arities)
    assert counts[-1] == 1

    name, path = paths[1]
    text = texts[path.index]
    last = [*parts][-1]
    text["data"][tag][last]["path"][-1]["hashes"][0][5] ^= 1
    with pytest.raises(VanillaMismatch, match=f"{name}: the path does not lead"):
        check_paths([paths[0], (name, read_path(text, shape))], shape, hashed)
    text["data"][tag][last]["path"].append(text["data"][tag][last]["path"][-1])
    with pytest.raises(FormatError, match=f"levels of {last}, not"):
        read_path(text, shape)


def test_sizes() -> None:
    assert {size: len(tree_d(size).arities) for size in SIZES} == {
        **{"2KiB": 6, "8MiB": 18, "512MiB": 24},
        **{"32GiB": 30, "64GiB": 31},
    }
    assert all(tree_r(size).leaves == tree_d(size).leaves == SIZES[size] // 32 for size in SIZES)
