"""The salt of a job's wrap: the wrap's prover draws it, and it is nowhere but beside the list and in the wrap's own
partition."""

from __future__ import annotations

import json
import secrets
import shutil
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import PARTITIONS, Run
from distprove.circuits.wrap.statement import statement_digest
from distprove.errors import InvalidProof
from distprove.job import Job
from distprove.proof import PROOF_FILE, SALT, SALT_BYTES, Proof
from distprove.settings import ExecutorSettings
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import node_key
from distprove.stark.recursion.tree_keys import keys_of_tree
from distprove.stark.wrap import files, prover, system
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.partition import GROTH16
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.errors import BackendError
from kernels.maths.curves import BN254
from tests.support.own_module import give
from tests.support.simulated_proofs import trapdoor

LOCAL = ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")
OPTIONS: dict[str, Any] = {
    **{"program": "fibonacci", "arguments": {"rows": 16}, "partitions": 1, "engine": "multilinear"},
    **{"hash": "poseidon2", "security": 1, "grinding": 0, "wrap": True, "insecure_dev": True},
}
"""A job of little work: not for use."""
STORED = f"{PARTITIONS}/{GROTH16}.msgpack"
KEY = trapdoor(BN254, 1)
"""By its trapdoor the Groth16 proofs are simulated."""


class Wraps:
    """In place of the prover's `wrap`, with the salts that it was given. The first attempts raise `errors`, or state
    another salt where one is None."""

    def __init__(self) -> None:
        self.salts: list[bytes] = []
        self.errors: list[Exception | None] = []

    def __call__(self, key: Any, second: PartitionProof, salt: bytes, *_: Any) -> Wrap:
        self.salts.append(salt)
        stated = salt
        if self.errors:
            error = self.errors.pop(0)
            if error is not None:
                raise error
            stated = bytes(SALT_BYTES)
        public = statement_digest(second.public, stated)
        return Wrap(KEY.key, KEY.prove([public], seed=1), (public,))


@pytest.fixture(scope="module")
def wraps() -> Iterator[Wraps]:
    """Provers of this process have one backend, and the keys of the job's tree in common."""
    made: dict[Any, Any] = {}
    simulated = Wraps()

    def keys(key: Any, kind: Any, own: CpuBackend) -> Any:
        place = key.digest, kind.leaves
        if place not in made:
            made[place] = keys_of_tree(key, kind, own)
        return made[place]

    with CpuBackend(threads=2) as backend, pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "close", lambda: None)
        patch.setattr("actors.prover.make_backend", lambda choice, *_: backend)
        patch.setattr("distprove.stark.recursion.system.keys_of_tree", keys)
        patch.setattr(prover, "wrap", simulated)
        patch.setattr(prover.WrappedProver, "_open", lambda *_, **__: None)
        patch.setattr(prover.WrappedProver, "diagnose", lambda *_: None)
        patch.setattr(system.WrappedSystem, "check", lambda *_: None)
        patch.setattr(system, "require_key_folder", lambda: None)
        yield simulated


def prove(path: Path) -> None:
    """Prove the job in `path`, or resume it there."""
    loaded: Any = Job.from_options("stark", **OPTIONS).load()
    opened = Run.open(path) if path.exists() else Run.create(path, loaded, loaded.plan())
    with opened as run, open_client(LOCAL) as client:
        drive(loaded, client, run, LOCAL)


@pytest.fixture(scope="module")
def proven(wraps: Wraps, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a job."""
    path = tmp_path_factory.mktemp("salt") / "run"
    prove(path)
    return path


@pytest.fixture
def run(proven: Path, wraps: Wraps, tmp_path: Path) -> Path:
    """A copy of it, for which no salt was drawn yet."""
    wraps.salts.clear()
    wraps.errors.clear()
    shutil.copytree(proven, tmp_path / "run")
    return tmp_path / "run"


def salt_of(run: Path) -> bytes:
    """The salt of the published list, which verifies with the wrap that is published."""
    proof = Proof.read(run / PROOF_FILE)
    loaded: Any = Job.from_options("stark", **OPTIONS).load()
    proof.verify(StarkVerifier(loaded.key, loaded.program, node_key=node_key).with_wrap(run, run / files.KEY))
    assert proof.salt is not None
    assert len(proof.salt) == SALT_BYTES == 32
    return proof.salt


def content(run: Path) -> PartitionProof:
    """The wrap's partition as it is stored."""
    loaded: Any = Job.from_options("stark", **OPTIONS).load()
    with Run.open(run) as opened:
        found = opened.load(loaded.plan()[-1])
    assert found is not None
    return found


def test_the_list_has_the_salt_of_the_wrap(run: Path) -> None:
    assert salt_of(run) == content(run).data[SALT]
    other = replace(Proof.read(run / PROOF_FILE), whole={**(Proof.read(run / PROOF_FILE).whole or {}), SALT: bytes(32)})
    other.write(run / PROOF_FILE)
    with pytest.raises(InvalidProof, match="not of this job"):
        salt_of(run)


def test_each_attempt_draws_its_own_from_the_systems_generator(
    run: Path, wraps: Wraps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails, one whose proof is bad, and the one that is published."""
    before, drawn, known = salt_of(run), list[bytes](), secrets.token_bytes

    def counted(count: int) -> bytes:
        drawn.append(known(count))
        return drawn[-1]

    give(monkeypatch, prover, "secrets", token_bytes=counted)
    wraps.errors = [BackendError("the device is lost"), None]
    (run / STORED).unlink()
    prove(run)
    assert len(wraps.salts) == 3
    assert len({before, *wraps.salts}) == 4
    assert [salt for salt in drawn if salt in wraps.salts] == wraps.salts
    assert salt_of(run) == wraps.salts[-1]


def test_a_resumed_job_keeps_it(run: Path, wraps: Wraps) -> None:
    kept, public = salt_of(run), (run / files.CALLDATA).read_bytes()
    prove(run)
    assert salt_of(run) == kept
    for name in (PROOF_FILE, *Wrap.read(run, run / files.KEY).contents()):
        (run / name).unlink()
    prove(run)
    assert salt_of(run) == kept
    assert (run / files.CALLDATA).read_bytes() == public
    assert not wraps.salts


def test_another_salt_beside_the_wrap_is_not_kept(run: Path, wraps: Wraps) -> None:
    """A proof that somebody else laid there, and a file that is damaged."""
    before, stored = salt_of(run), content(run)
    with Run.open(run) as opened:
        opened.store([replace(stored, data={**stored.data, SALT: bytes(SALT_BYTES)})])
    prove(run)
    (first,) = wraps.salts
    assert salt_of(run) == first
    path = run / STORED
    data = bytearray(path.read_bytes())
    at = data.index(first)
    data[at : at + SALT_BYTES] = bytes(SALT_BYTES)
    path.write_bytes(data)
    prove(run)
    (_, second) = wraps.salts
    assert salt_of(run) == second
    assert len({before, first, second, bytes(SALT_BYTES)}) == 4


def test_no_other_file_has_it(run: Path, wraps: Wraps, caplog: pytest.LogCaptureFixture) -> None:
    wraps.errors = [BackendError("the device is lost"), None]
    (run / STORED).unlink()
    prove(run)
    proof, part = Proof.read(run / PROOF_FILE), content(run)
    for salt in wraps.salts:
        words = [str(word) for size in ("<u4", "<u8") for word in np.frombuffer(salt, dtype=size).tolist()]
        forms = [salt, salt.hex().encode(), b64encode(salt)[:-1], str(list(salt)).encode(), *map(str.encode, words)]
        files_of_run = [path for path in run.rglob("*") if path.is_file()]
        holding = {
            str(path.relative_to(run)) for path in files_of_run if any(form in path.read_bytes() for form in forms)
        }
        assert holding == ({PROOF_FILE, STORED} if salt == proof.salt else set())
        for text in (repr(proof), str(proof), repr(part), str(part), caplog.text):
            assert not any(form.decode(errors="replace") in text for form in forms)
    report = json.loads((run / "report.json").read_text())
    assert [own["attempts"] for own in report["partitions"] if own["name"] == GROTH16] == [3]
