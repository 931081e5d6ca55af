"""What is kept of circuits: a verifier makes the key of a node once, and a damaged file is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from distprove.stark.multilinear.params import Parameters
from distprove.stark.recursion.frame import Frame
from distprove.stark.recursion.kept import found_root, kept_root, kept_rows
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.node import Child, node_circuit
from distprove.stark.recursion.program import NodeProgram
from kernels.interface.tree_hash import TreeHash
from tests.stark.recursion.test_parity import circuit_of

PARAMS = Parameters(1, 2, (5,) * 8, 2, 0, log_final=1, tree_hash=TreeHash.POSEIDON2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


def child() -> Child:
    return circuit_of("fibonacci", 0)[1]


def test_rows_are_those_of_the_layout(folder: Path) -> None:
    rows = Layout.of(node_circuit([child()])).rows
    assert kept_rows([child()], folder) == rows  # made
    assert kept_rows([child()], folder) == rows  # read
    (file,) = folder.glob("*.rows")
    file.write_bytes(file.read_bytes()[:-1])
    assert kept_rows([child()], folder) == rows


def test_a_root_is_made_once_for_its_program_and_parameters(folder: Path) -> None:
    program = NodeProgram([child()], Frame.fitting(kept_rows([child()] * 2, folder)))
    assert found_root(program, PARAMS, folder) is None
    assert kept_root(program, PARAMS, lambda: bytes(32), folder) == bytes(32)
    assert kept_root(program, PARAMS, lambda: bytes([1]) * 32, folder) == bytes(32)
    other = Parameters(2, 2, (5,) * 8, 2, 0, log_final=1, tree_hash=TreeHash.POSEIDON2)
    taller = Frame({name: height + 1 for name, height in program.frame.log_heights.items()})
    assert found_root(program, other, folder) is None
    assert found_root(NodeProgram([child()], taller), PARAMS, folder) is None
    assert found_root(NodeProgram([child()] * 2, program.frame), PARAMS, folder) is None


def test_a_damaged_root_is_made_anew(folder: Path) -> None:
    program = NodeProgram([child()], Frame.fitting(kept_rows([child()], folder)))
    kept_root(program, PARAMS, lambda: bytes(32), folder)
    (file,) = folder.glob("*.root")
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    assert kept_root(program, PARAMS, lambda: bytes([2]) * 32, folder) == bytes([2]) * 32


def test_a_root_that_another_could_have_written_is_made_anew(folder: Path) -> None:
    """It would stand for a key, under which anything might verify. Its name and content fit each other."""
    program = NodeProgram([child()], Frame.fitting(kept_rows([child()], folder)))
    wrong, right = bytes([1]) * 32, bytes([2]) * 32
    kept_root(program, PARAMS, lambda: wrong, folder)
    (file,) = folder.glob("*.root")
    file.chmod(0o622)
    assert found_root(program, PARAMS, folder) is None
    assert kept_root(program, PARAMS, lambda: right, folder) == right
    file.unlink()
    assert kept_root(program, PARAMS, lambda: right, folder) == right
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert found_root(program, PARAMS, folder) is None


def test_content_that_is_no_root_is_none(folder: Path) -> None:
    other = NodeProgram([child()] * 2, Frame.fitting(kept_rows([child()] * 2, folder)))
    program = NodeProgram([child()], other.frame)
    kept_root(program, PARAMS, lambda: bytes(32), folder)
    (file,) = folder.glob("*.root")
    kept_root(other, PARAMS, lambda: bytes(31), folder)
    assert found_root(other, PARAMS, folder) is None
    assert found_root(program, PARAMS, folder) == bytes(32)
    file.write_bytes(b"no root")
    assert found_root(program, PARAMS, folder) is None
