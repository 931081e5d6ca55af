"""The estimate of what a tree's keys cost: true of every program that ships, and refused before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from distprove.errors import TooMuchWork
from distprove.stark.heights import LogHeights, encode_heights
from distprove.stark.multilinear.key import MultilinearKey, compile_key, with_params, with_root
from distprove.stark.multilinear.params import LOG_FINAL_IN_CIRCUITS
from distprove.stark.multilinear.proof import FIELDS
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.multilinear.shape import Shape
from distprove.stark.programs import load_program
from distprove.stark.recursion.frame import KINDS, Frame
from distprove.stark.recursion.node import MOST_CHILDREN, Child, node_circuit
from distprove.stark.recursion.plan import MOST_LEAVES, Form, leaf_forms
from distprove.stark.recursion.tree import node_child
from distprove.stark.recursion.tree_keys import MOST_KEYS, NODES, parameters
from distprove.stark.recursion.whole import verify_whole
from distprove.stark.recursion.work import check_work, child_wires, leaf_wires, node_wires
from distprove.system import PartitionProof
from kernels.interface.tree_hash import TreeHash
from tests.support.stark_programs import Sparse

BITS = 128
ERROR = 0.15
"""Share of the recorded wires by which an estimate may be wrong."""


def keyed(program: Any, partitions: int = 1, **options: Any) -> tuple[MultilinearKey, LogHeights]:
    """The key of a job at full security, without its true root, and the heights of its first partition."""
    given = {"security": BITS, "hash": TreeHash.POSEIDON2.value, "log_final": LOG_FINAL_IN_CIRCUITS, **options}
    key = compile_key(program, choose_parameters(program, partitions, **given))
    root = bytes(32) if key.preprocessed.width else b""
    return with_root(key, root), tuple(program.log_heights(partitions)[0])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("file") / "file"
    path.write_bytes(bytes(3000))
    return str(path)


SHIPPED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("fibonacci", {"rows": 1 << 10}, {}),
    ("fibonacci", {"rows": 1 << 20}, {"blowup": 8}),
    ("wide-fibonacci", {"rows": 1 << 12}, {}),
    ("range-check", {"values": 1 << 10}, {}),
    ("keccak-f", {"permutations": 100}, {}),
    ("file-root", {"file": ""}, {"prefer": "size"}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), SHIPPED)
def test_the_estimate_is_near_the_recorded_circuit(
    name: str, arguments: dict[str, Any], options: dict[str, Any], file: str
) -> None:
    given = {**arguments, **({"file": file} if "file" in arguments else {})}
    key, heights = keyed(load_program(name, given, options.get("prefer", "speed")), **options)
    shape = Shape(key, heights)
    assert child_wires(shape) == pytest.approx(node_circuit([Child(shape, 9)]).wires, rel=ERROR)


def test_the_estimate_counts_absent_tables_and_global_buses() -> None:
    program = Sparse()
    key, _ = keyed(program, 3)
    for heights in {tuple(own) for own in program.log_heights(3)}:
        shape = Shape(key, heights)
        assert child_wires(shape) == pytest.approx(node_circuit([Child(shape, 9)]).wires, rel=ERROR)


# -- what a hostile file asks for -------------------------------------------------------------------------------------


class Heavy(Exception):
    """A key of a node was asked for."""


def heavy(key: Any, kind: Any) -> Any:
    raise Heavy


def hostile(leaves: int, queries: int) -> tuple[MultilinearKey, list[PartitionProof]]:
    """A key of many queries, and a list of partitions with so many different leaves: some kilobytes as a file."""
    key, _ = keyed(load_program("fibonacci", {"rows": 1 << 10}))
    params = replace(key.params, queries=(queries,) * 8, security_bits=0)
    key = replace(with_params(key, params), fixed_heights=(None,))  # type: ignore[arg-type]
    listed = []
    for number in range(4 * leaves):
        name = f"{number:04}" + "p" * number  # none has the form of another
        heights = encode_heights([24 - number % 4])
        data = {"heights": heights, "root": bytes(32), "anchor": bytes(24)}
        listed.append(PartitionProof(name, bytes(32), (0, 0, 0), data))
    return key, listed


def verify(key: MultilinearKey, listed: Sequence[PartitionProof], most: int | None = None) -> None:
    proof = {name: kind() for name, kind in FIELDS.items()}
    verify_whole(key, heavy, listed, {"proof": proof, "sum": bytes(24)}, None, most)


def test_a_file_that_asks_for_too_large_circuits_is_refused_before_any_is_made() -> None:
    """It made a verifier work for minutes: for sixteen keys, each of circuits of four million wires."""
    key, listed = hostile(MOST_LEAVES, 350)
    with pytest.raises(TooMuchWork, match=r"for 16 different leaves; at most 6000000 are allowed, and `tree_wires`"):
        verify(key, listed)
    wires = leaf_wires(key, [leaf_forms([Form((24 - i,), 4) for i in range(4)])])
    with pytest.raises(Heavy):
        verify(key, listed, 16 * wires)
    with pytest.raises(TooMuchWork):
        verify(key, listed, 16 * wires - 1)


def test_the_keys_of_a_tree_do_not_push_each_other_out() -> None:
    """One for each leaf, that of nodes and the root's, of several jobs at once."""
    assert MOST_KEYS >= 3 * (MOST_LEAVES + 2)


def test_the_largest_circuit_bounds_a_leaf_whatever_is_allowed() -> None:
    key, listed = hostile(1, 1024)
    with pytest.raises(TooMuchWork, match="none has more than"):
        verify(key, listed, 1 << 40)


def test_a_large_leaf_makes_small_ones_cost_as_much() -> None:
    """All nodes have the tables of the largest leaf."""
    key, _ = hostile(1, 225)
    small, large = ([leaf_forms([Form((height,), 9)])] for height in (10, 24))
    each = leaf_wires(key, large)
    assert leaf_wires(key, small) < each == leaf_wires(key, small + large)
    check_work(key, small + large, 2 * each)
    with pytest.raises(TooMuchWork):
        check_work(key, small + large, 2 * each - 1)


def test_a_small_leaf_costs_as_much_as_the_node_above_it() -> None:
    """Sixteen leaves of few wires at 128 bits took three minutes."""
    key, heights = keyed(load_program("fibonacci", {"rows": 32}))
    leaves = [leaf_forms([Form(heights, 9 + number)]) for number in range(MOST_LEAVES)]
    node = node_wires(key)
    assert leaf_wires(key, leaves) < node
    check_work(key, leaves[:8])
    with pytest.raises(TooMuchWork, match=f"some {MOST_LEAVES * node} wires, for 16 different leaves"):
        check_work(key, leaves)


@pytest.mark.parametrize(("bits", "grinding"), [(128, 16), (100, 0), (40, 16), (1, 0)])
def test_the_estimate_of_a_node_is_near_the_recorded_circuit(bits: int, grinding: int) -> None:
    frame = Frame({**dict.fromkeys(KINDS, 9), "relations": 17, "more relations": 16, "joins": 15, "poseidon2": 15})
    child = node_child(frame, parameters(frame, NODES, bits, grinding))
    key, _ = keyed(load_program("fibonacci", {"rows": 32}))
    key = with_params(key, replace(key.params, security_bits=bits, grinding_bits=grinding))
    assert node_wires(key) == pytest.approx(node_circuit([child] * MOST_CHILDREN).wires, rel=ERROR)


@pytest.mark.parametrize("log_rows", [10, 24])
@pytest.mark.parametrize(("name", "argument", "less"), [("wide-fibonacci", "rows", 0), ("keccak-f", "permutations", 6)])
def test_honest_jobs_have_room(log_rows: int, name: str, argument: str, less: int) -> None:
    """With names of three different lengths, as a job of more than 10,000 partitions has."""
    key, heights = keyed(load_program(name, {argument: 1 << (log_rows - less)}))
    check_work(key, [leaf_forms([Form(heights, 9 + number)]) for number in range(3)])
