"""Circuits by name: those that ship and one's own, jobs that compute their witnesses, and what is refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import distprove
from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.registry import CIRCUITS, circuit_maker, find_circuit, known_sizes, random_inputs
from distprove.errors import CodeFault, InputError, JobFailed, UntrustedName, UsageError
from distprove.groth16 import system
from distprove.groth16.setup import setup
from distprove.job import Job
from distprove.settings import ExecutorSettings
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254

OWN = "tests.circuits.test_registry:squares"
LOCAL = ExecutorSettings(local=True, isolate=False, backend="cpu", threads=1)
SECRET = 987_654_321_123


def squares() -> CircuitBuilder:
    """A circuit of one's own: the public sum of two secret squares."""
    b = CircuitBuilder(BN254)
    total, x = b.public_input("total"), b.private_input("x", 2)
    square = b.multiply(x, x)
    b.assert_equal(square[0] + square[1], total, "the squares add up")
    return b


QUICK = ("snap-deals-poseidon-1KiB", "window-post-2KiB", "winning-post-2KiB", "winning-post-32GiB")
"""Circuits that are built in less than a second."""


@pytest.mark.parametrize("name", CIRCUITS)
def test_the_sizes_of_circuits_that_ship_are_theirs(name: str) -> None:
    """A key of another circuit is told by them before its circuit is built."""
    if name.removeprefix("filecoin/") not in QUICK and os.environ.get("DISTPROVE_LONG") != "1":
        pytest.skip("it is built with DISTPROVE_LONG=1 only: all take minutes")
    shape = find_circuit(name).make().shape()
    assert known_sizes(name) == (shape.inputs + shape.auxiliary, shape.inputs - 1)


def test_circuits_that_ship_have_sizes_of_their_own() -> None:
    assert len({known_sizes(name) for name in CIRCUITS}) == len(CIRCUITS)
    assert known_sizes(OWN) is None


@pytest.mark.parametrize("suffix", [".zkey", ".params"])
def test_a_key_of_another_circuit_is_refused_before_the_circuit_is_built(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another kind, and of the same kind for larger sectors, whose public values are as many."""
    key = tmp_path / f"key{suffix}"
    r1cs = find_circuit("filecoin/window-post-2KiB").make().build().r1cs
    with CpuBackend(threads=2) as cpu:
        setup(r1cs, insecure_dev=True, backend=cpu, out=key)
    monkeypatch.setattr("distprove.circuits.registry.CircuitEntry.make", lambda self: pytest.fail("it was built"))
    for job in ("filecoin/winning-post-2KiB", "filecoin/window-post-8MiB"):
        with pytest.raises(InputError, match="another circuit"):
            system.Groth16System.of_key({suffix[1:]: key}, job)


def number() -> int:
    return 5


FAULTY = """
def misspelt():
    from distprove.circuits.builder import CircuitBuilder
    from kernels.maths.curves import BN254
    return CircuitBuilder(BN254).multply(1, 2)

def other_parameters(builder):
    return builder
"""


def keyed(folder: Path, backend: Backend) -> Path:
    setup(squares().build().r1cs, insecure_dev=True, backend=backend, out=folder / "key.zkey")
    return folder / "key.zkey"


def inputs(*pairs: tuple[int, int]) -> list[dict[str, object]]:
    return [{"total": str(x * x + y * y), "x": [x, str(y)]} for x, y in pairs]


@pytest.fixture(params=["synthesised", "made where proven"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Witnesses by synthesisers, and by the prover as those of large circuits."""
    if request.param == "made where proven":
        monkeypatch.setattr(system, "MADE_WHERE_PROVEN", 1)


@pytest.mark.usefixtures("made")
def test_a_job_computes_the_witnesses_of_a_circuit(backend: Backend, tmp_path: Path) -> None:
    zkey, files = keyed(tmp_path, backend), tmp_path / "inputs"
    files.mkdir()
    for name, given in zip("ab", inputs((3, 4), (SECRET, 1)), strict=True):
        (files / f"{name}.json").write_text(json.dumps(given))
    run = tmp_path / "run"
    result = distprove.prove(zkey=zkey, circuit=OWN, inputs=[files], out=run, executor=LOCAL)
    assert [proof.public for proof in result.proof.partitions] == [(25,), (SECRET * SECRET + 1,)]
    assert distprove.verify(run / "proof.msgpack", trust_own_key=True)
    kept = [path for path in run.rglob("*") if path.is_file()]
    assert kept
    assert not any(str(SECRET).encode() in path.read_bytes() for path in kept)


@pytest.mark.usefixtures("made")
def test_false_inputs_are_told_by_name_and_without_values(backend: Backend, tmp_path: Path) -> None:
    zkey, run = keyed(tmp_path, backend), tmp_path / "run"
    true, false = inputs((3, 4), (SECRET, 2))
    lies = [{**false, "total": 7}, {**false, "y": 1}, {"total": 1, "x": [1]}]
    with pytest.raises(JobFailed):
        distprove.prove(zkey=zkey, circuit=OWN, inputs=[true, *lies], out=run, executor=LOCAL)
    report = json.loads((run / "report.json").read_text())
    first, *rest = report["partitions"]
    assert first["status"] == "proved"
    for partition, told in zip(rest, ("the squares add up", "no input signal 'y'", "'x' takes 2 values"), strict=True):
        assert told in partition["error"]
        assert str(SECRET) not in partition["error"]


def test_what_is_sent_to_a_prover_that_makes_the_witness(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Inputs alone; a diagnosis makes the witness on the host."""
    monkeypatch.setattr(system, "MADE_WHERE_PROVEN", 1)
    (source,) = inputs((3, 4))
    (tmp_path / "a.json").write_text(json.dumps(source))
    job = Job.from_options("groth16", zkey=keyed(tmp_path, backend), circuit=OWN, inputs=[tmp_path / "a.json"])
    groth16 = job.load()
    shared, (partition,) = groth16.shared(), groth16.plan()
    witness = groth16.synthesiser(shared, 1).synthesise(partition)
    assert {name: array.shape for name, array in witness.arrays.items()} == {"inputs": (3, 4)}
    with CpuBackend(1) as device:
        prover = groth16.prover(shared, device)
        proof, _ = prover.prove_partition(partition, witness)
        assert proof.public == (25,)
        assert groth16.verify(proof)
        prover.diagnose(partition, witness)


def test_a_key_of_another_circuit_is_refused(backend: Backend, tmp_path: Path) -> None:
    zkey = keyed(tmp_path, backend)
    other = "filecoin/snap-deals-poseidon-1KiB"
    with pytest.raises(InputError, match="the circuit is over BLS12-381, the key BN254"):
        distprove.prove(zkey=zkey, circuit=other, inputs=inputs((3, 4)), out=tmp_path / "run", executor=LOCAL)


def test_a_run_does_not_choose_a_circuit_of_code(backend: Backend, tmp_path: Path) -> None:
    job = Job.from_options("groth16", zkey=keyed(tmp_path, backend), circuit=OWN, inputs=inputs((3, 4)))
    assert job.code == [OWN]
    with pytest.raises(UntrustedName, match="not one that ships"):
        Job.from_record(job.to_record())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("filecoin/porep-2Kib", "did you mean `filecoin/porep-2KiB`"),
        ("nothing", "there are filecoin/.* and your own as MODULE:FUNCTION"),
        ("tests.circuits.none:squares", "No module named"),
        ("tests.circuits.test_registry:none", "has no attribute 'none'"),
        ("tests.circuits.test_registry:SECRET", "not a function"),
        ("tests.circuits.test_registry:number", "makes no CircuitBuilder but a int"),
    ],
)
def test_bad_names_are_told(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        circuit_maker(name)()


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("misspelt", "has no attribute 'multply'"),
        ("other_parameters", "missing 1 required positional argument: 'builder'"),
    ],
)
def test_faults_in_a_circuit_are_its_own(
    function: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_circuit.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CodeFault, match=rf"{told}[^\n]*\n.*faulty_circuit\.py:\d+, in {function}"):
        circuit_maker(f"faulty_circuit:{function}")()
    monkeypatch.delitem(sys.modules, "faulty_circuit")


def test_circuits_that_ship() -> None:
    sizes = {"filecoin/winning-post-2KiB": 66 * (313 + 1062), "filecoin/snap-deals-poseidon-1KiB": 32_164}
    for name, constraints in sizes.items():
        assert find_circuit(name).make().shape().constraints == constraints
    for kind in ("porep", "winning-post", "window-post", "snap-deals", "snap-deals-poseidon"):
        assert {f"filecoin/{kind}-{size}" for size in ("2KiB", "8MiB", "512MiB", "32GiB", "64GiB")} <= set(CIRCUITS)
    assert find_circuit("filecoin/porep-32GiB").partitions == 10
    assert find_circuit("filecoin/snap-deals-32GiB").partitions == 16
    made = random_inputs("filecoin/winning-post-2KiB", seed=1)
    assert made(0) == made(0) != made(1)
