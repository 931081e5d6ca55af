"""What provers and verifiers of a job that ends in one proof prepare before they need it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.messages import VerifierSpec
from actors.server import VerifierServer
from distprove.job import Job
from distprove.stark.multilinear.air import Rules, compile_rules
from distprove.stark.multilinear.key import compile_key
from distprove.stark.multilinear.memory import plans
from distprove.stark.multilinear.shape import Shape
from distprove.stark.recursion import program, tree_keys
from distprove.stark.recursion.frame import KINDS, MORE, Frame
from distprove.stark.recursion.node import STATED, Child
from distprove.stark.recursion.plan import INNER, ROOT
from distprove.stark.recursion.system import OneProofProver, OneProofSystem
from distprove.stark.recursion.tables import WIRE
from distprove.system import PartitionProof, PreparesIdle, PreparesVerifying
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import DeviceInfo
from tests.stark.recursion.test_tree import NODES


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is known, in this process or in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("_CHOSEN", "_KEYS"):
        monkeypatch.setattr(tree_keys, name, type(getattr(tree_keys, name))())


@pytest.fixture
def system() -> OneProofSystem:
    """As a worker gets it, of a job that is planned."""
    options = {"engine": "multilinear", "hash": "poseidon2", "one_proof": True, "security": 1, "grinding": 0}
    made = Job.from_options("stark", program="fibonacci", partitions=5, arguments={"rows": 16}, **options).load()
    assert isinstance(made, OneProofSystem)
    assert made.planned_kinds() == ()
    made.plan()
    sent: OneProofSystem = pickle.loads(pickle.dumps(made))
    assert sent.planned_kinds() == made.planned_kinds()
    return sent


class Device(CpuBackend):
    """A backend that is not the host's CPU, or so it says."""

    def info(self) -> DeviceInfo:
        found = super().info()
        return DeviceInfo(found.name, "gpu", found.memory_total, found.memory_budget, found.details)


@pytest.fixture
def device() -> Iterator[Device]:
    with Device(threads=2) as made:
        yield made


def test_a_prover_prepares_the_keys_of_the_tree(
    system: OneProofSystem, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[int] = []
    record = program.kept_circuit

    def counting(children: Sequence[Child]) -> Any:
        recorded.append(len(children))
        return record(children)

    monkeypatch.setattr(program, "kept_circuit", counting)
    before = set(threading.enumerate())
    prover = system.prover({}, device)
    assert isinstance(prover, OneProofProver)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert recorded == [4, 4, 1]  # a leaf, nodes and the root: two leaves have one key
    kind = system.planned_kinds()[0]
    (keys,) = prover._trees.values()
    assert [keys.leaf(kind.leaves[0]), keys.node, keys.root]
    assert len(recorded) == 3
    keys.drop(keep=keys.node)
    assert [*keys._programs] == [INNER]
    prover.close()


def test_an_idle_prover_makes_the_keys_of_the_tree(system: OneProofSystem, device: Device) -> None:
    before = set(threading.enumerate())
    prover = system.prover({}, device)
    assert isinstance(prover, OneProofProver)
    assert isinstance(prover, PreparesIdle)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    pieces = 1
    while prover.prepare_more():
        pieces += 1
    (keys,) = prover._trees.values()
    made = keys._made()
    assert len(made) == 3  # of leaves, nodes and the root
    assert pieces > 3 + len(prover._cells)
    kind = system.planned_kinds()[0]
    assert [keys.leaf(kind.leaves[0]), keys.node, keys.root] == made
    assert prover._held() >= keys.nbytes > 0
    assert not prover.prepare_more()
    prover.close()


def test_an_idle_prover_makes_no_key_that_has_no_room(
    system: OneProofSystem, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(threading.enumerate())
    prover = system.prover({}, device)
    assert isinstance(prover, OneProofProver)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    key, heights = prover._key.key, system.planned_kinds()[0].leaves[0][0].log_heights
    partition = plans(Shape(key, heights))[0].peak
    monkeypatch.setattr(OneProofProver, "_budget", property(lambda self: partition + 1))
    while prover.prepare_more():
        pass
    (keys,) = prover._trees.values()
    assert keys._made() == []
    prover.close()


def test_a_prover_on_the_cpu_does_not(system: OneProofSystem) -> None:
    with CpuBackend() as backend:
        before = set(threading.enumerate())
        system.prover({}, backend)
        assert set(threading.enumerate()) <= before
        prover = system.prover({}, backend)
        assert isinstance(prover, OneProofProver)
        assert not prover.prepare_more()


def test_a_verifier_makes_the_keys_of_the_tree_when_it_loads(system: OneProofSystem) -> None:
    assert isinstance(system, PreparesVerifying)
    before = set(threading.enumerate())
    VerifierServer(VerifierSpec("verifier", system)).load()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert {kind.role for _, kind in tree_keys._KEYS} == {0, INNER, ROOT}
    tables = [table for key in (system.key, *tree_keys._KEYS.values()) for table in key.tables]
    assert all({"constraints_at", "interactions_at"} <= vars(table).keys() for table in tables)


def test_the_rules_of_a_node_are_read_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of any frame and parameters have the same tables."""
    reads: list[str] = []
    read = Rules.from_record

    def counting(record: Any) -> Rules:
        reads.append(record["name"])
        return read(record)

    monkeypatch.setattr(Rules, "from_record", staticmethod(counting))
    program._rules_of.cache_clear()
    keys = [
        compile_key(program.NodeProgram((), Frame({**dict.fromkeys(KINDS, height), "publics": 4})), NODES)
        for height in (5, 6, 7)
    ]
    assert len({key.digest for key in keys}) == 3
    assert sorted(reads) == sorted(KINDS)


@pytest.mark.parametrize(("kind", "more"), MORE.items())
def test_a_second_table_has_the_rules_of_the_first(kind: str, more: str) -> None:
    compiled = compile_rules(program._definition(more, STATED), {WIRE.name: 1})
    assert program._rules_of(more, STATED).to_record() == compiled.to_record()
    assert program._rules_of(more, STATED).constraints is program._rules_of(kind, STATED).constraints


def test_what_cannot_be_prepared_keeps_no_verifier_from_its_work(
    system: OneProofSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_keys, "choose_tree", lambda *_: pytest.fail("there is no tree"))
    VerifierServer(VerifierSpec("verifier", system)).load()


def test_a_driver_makes_the_keys_of_the_whole_at_the_first_node(system: OneProofSystem) -> None:
    """Not before, when it would record circuits beside the start of all partitions."""
    *partitions, leaf, _, _, _ = system.plan()
    nothing = PartitionProof(leaf.name, leaf.digest, (), {})
    assert not system.made_of(partitions[0], nothing, [])
    assert "_ahead" not in vars(system)
    assert not system.made_of(leaf, nothing, [])
    system._ahead.result()
    assert {kind.role for _, kind in tree_keys._KEYS} == {0, INNER, ROOT}
    assert pickle.loads(pickle.dumps(system)).planned_kinds() == system.planned_kinds()
