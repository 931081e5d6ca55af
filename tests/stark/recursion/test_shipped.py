"""Roots that ship: they are those of the circuits as they are now, and stand for no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.stark.recursion import shipped, tree_keys
from distprove.stark.recursion.frame import Frame
from distprove.stark.recursion.kept import found_root, kept_root
from distprove.stark.recursion.plan import INNER, ROOT, WRAP, Form, Kind, leaf_forms
from distprove.stark.recursion.program import NodeProgram
from distprove.stark.recursion.ship import made_root, main, programs_of, renewed
from distprove.stark.recursion.shipped import CONTRACT, KEYS, content_of, shipped_root, shipped_trees
from distprove.stark.recursion.tree_keys import WRAP_BITS, node_key
from tests.stark.recursion.test_parity import made

LOW = next(tree for tree in shipped_trees() if tree["bits"] == 1)
"""Of few queries, so that its roots are made in a second."""
ANEW = "circuits have changed: run `python -m distprove.stark.recursion.ship`, which takes minutes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, and it is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "distprove" / "circuits"


@pytest.mark.parametrize("tree", shipped_trees(), ids=lambda tree: tree["name"])
def test_what_ships_is_of_the_circuits_as_they_are(tree: Mapping[str, Any]) -> None:
    for name, (program, params) in programs_of(tree).items():
        if name not in tree:  # it was added, and is not made yet
            assert shipped_root(program, params) is None
            continue
        assert content_of(program, params).hex() == tree[name]["content"], ANEW
        assert shipped_root(program, params) == bytes.fromhex(tree[name]["root"])
        assert params.security_bits == (min(tree["bits"], WRAP_BITS) if name in ("wrap", CONTRACT) else tree["bits"])


def test_roots_of_few_bits_are_made_again() -> None:
    assert renewed(LOW, check=True, threads=2) == LOW


@pytest.mark.slow
def test_a_node_of_128_bits_is_made_again() -> None:
    tree = next(tree for tree in shipped_trees() if tree["name"].startswith("fibonacci"))
    assert made_root(*programs_of(tree)["node"], threads=2).hex() == tree["node"]["root"]


def test_the_command_finds_a_root_that_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**LOW, "root": {**LOW["root"], "root": bytes(32).hex()}}
    monkeypatch.setattr("distprove.stark.recursion.ship.shipped_trees", lambda: [wrong])
    assert main(["--check"]) == 1
    monkeypatch.setattr("distprove.stark.recursion.ship.shipped_trees", lambda: [LOW])
    assert main(["--check"]) == 0


def test_the_command_makes_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = {**LOW, "node": {"content": bytes(32).hex(), "root": bytes(32).hex()}}
    file = tmp_path / "roots.json"
    monkeypatch.setattr("distprove.stark.recursion.ship.shipped_trees", lambda: [stale])
    monkeypatch.setattr("distprove.stark.recursion.ship.FILE", file)
    assert main([]) == 0
    monkeypatch.setattr(shipped, "FILE", file)
    assert shipped_trees() == [LOW]


class Changed(NodeProgram):
    """A program of which one number of a circuit is another."""

    def preprocessed(self) -> Mapping[str, Any]:
        columns = dict(super().preprocessed())
        columns["relations"] = columns["relations"].copy()
        columns["relations"][4, 7] ^= np.uint64(1)
        return columns


def test_a_root_stands_for_no_other_columns_or_parameters(folder: Path) -> None:
    """As after a change of the code that records circuits: what ships is not used, and the root is made."""
    program, params = programs_of(LOW)["node"]
    assert shipped_root(program, params) is not None
    changed = Changed(program.children, program.frame)
    assert shipped_root(changed, params) is None
    assert found_root(changed, params) is None
    assert kept_root(changed, params, lambda: bytes([7]) * 32) == bytes([7]) * 32
    assert kept_root(NodeProgram(program.children, program.frame), params, lambda: bytes(32)) == bytes([7]) * 32
    for other in (
        replace(params, log_blowup=params.log_blowup + 1),
        replace(params, log_columns=params.log_columns - 1),
        replace(params, tree_hash=programs_of(LOW)["root"][1].tree_hash),
    ):
        assert shipped_root(program, other) is None
    heights = dict(program.frame.log_heights)
    taller = Frame({**heights, "bits": heights["bits"] + 1})
    assert shipped_root(NodeProgram(program.children, taller), params) is None


def test_a_table_is_not_taken_for_another_of_the_same_bytes() -> None:
    """Columns are told apart by their shapes, and not by where one table ends in a row of numbers."""
    program, params = programs_of(LOW)["node"]

    class Shaped(NodeProgram):
        def preprocessed(self) -> Mapping[str, Any]:
            columns = dict(super().preprocessed())
            width, rows = columns["joins"].shape
            columns["joins"] = columns["joins"].reshape(width // 2, rows * 2)
            return columns

    assert content_of(Shaped(program.children, program.frame), params) != content_of(program, params)


def test_verifiers_and_provers_commit_to_no_columns_of_keys_that_ship(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, params = programs_of(LOW)["node"]
    monkeypatch.setattr(tree_keys, "make_verifying_key", lambda *_: pytest.fail("it ships"))
    key = made("fibonacci").key
    key = replace(key, params=replace(key.params, security_bits=LOW["bits"], grinding_bits=LOW["grinding"]))
    form = leaf_forms([Form((4,), 9)])
    chosen = tree_keys.TreeParameters(params, programs_of(LOW)["root"][1]), program.frame
    monkeypatch.setattr(tree_keys, "choose_tree", lambda *_: chosen)
    monkeypatch.setattr(tree_keys, "_CHOSEN", type(tree_keys._CHOSEN)())
    monkeypatch.setattr(tree_keys, "_KEYS", type(tree_keys._KEYS)())
    kind = Kind((form,), INNER)
    for name, own in zip(KEYS, (kind, kind.of_role(ROOT), kind.of_role(WRAP)), strict=True):
        assert node_key(key, own).preprocessed_root.hex() == LOW[name]["root"]
    assert len([*folder.glob("*.root")]) == len(KEYS)  # the next process does not even record the circuits
