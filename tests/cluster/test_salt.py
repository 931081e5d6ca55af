"""The salt of a job's wrap: random for each job, the same for each attempt, and nowhere but beside the list."""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import InputError, InvalidProof
from distprove.proof import PROOF_FILE, SALT_BYTES, Proof
from distprove.settings import ExecutorSettings
from distprove.system import DeviceTask, PartitionProof
from tests.support.toy_aggregate import DEVICE, ToyTask
from tests.support.toy_system import Faults, ToySystem

Make = Callable[..., Faults]
WRAP = "wrap.txt"


class WrappingToy(ToySystem):
    """Its jobs end in one proof with a wrap. `errors` are raised in the first attempts to make one."""

    errors: Sequence[Exception] = ()

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.salts: list[bytes] = []

    def bind_whole(self, proofs: Sequence[PartitionProof]) -> tuple[Sequence[PartitionProof], dict[str, Any]]:
        return proofs, {"proof": b"root"}

    def wrap(
        self, proofs: Sequence[PartitionProof], salt: bytes, run: Callable[[DeviceTask], Any]
    ) -> tuple[Mapping[str, bytes], Mapping[str, float]]:
        self.salts.append(salt)
        run(ToyTask(self.faults, True, 0, 0))
        if len(self.salts) <= len(self.errors):
            raise self.errors[len(self.salts) - 1]
        return {WRAP: b"wrap"}, {"prove": 0.1}


@pytest.fixture
def prove(tmp_path: Path, faults: Make, local: ExecutorSettings, run_toy: Callable[..., Proof]) -> Callable[..., Any]:
    own = faults()

    def prove_toy(*errors: Exception, device: bool = False) -> tuple[list[bytes], Proof]:
        """The salts that attempts were given, and the proof in the run."""
        system = WrappingToy(2, own)
        system.errors = errors
        run_toy(system, replace(local, backend=DEVICE) if device else local)
        return system.salts, Proof.read(tmp_path / "run" / PROOF_FILE)

    return prove_toy


def test_each_job_has_its_own_from_the_systems_generator(
    prove: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (salt,), proof = prove()
    assert proof.salt == salt
    assert len(salt) == SALT_BYTES == 32
    (tmp_path / "run").rename(tmp_path / "first")
    drawn: list[int] = []
    known = secrets.token_bytes

    def counted(count: int) -> bytes:
        drawn.append(count)
        return known(count)

    monkeypatch.setattr("cluster.driver.secrets.token_bytes", counted)
    (other,), _ = prove()
    assert other != salt
    assert drawn.count(SALT_BYTES) == 1


def test_another_attempt_has_the_same(prove: Callable[..., Any]) -> None:
    """The first one was made on a device, and is bad."""
    (salt, again), proof = prove(InvalidProof("the wrap does not verify"), device=True)
    assert salt == again == proof.salt


def test_a_resumed_job_keeps_it(prove: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        prove(InputError("no key"))
    assert not (tmp_path / "run" / WRAP).exists()
    kept = Proof.read(tmp_path / "run" / PROOF_FILE).salt
    assert kept is not None
    for _ in range(2):  # a job without a wrap, and one that is done
        (salt,), proof = prove()
        assert salt == proof.salt == kept


def test_a_damaged_proof_has_none_that_is_kept(prove: Callable[..., Any], tmp_path: Path) -> None:
    (salt,), _ = prove()
    path = tmp_path / "run" / PROOF_FILE
    content = bytearray(path.read_bytes())
    at = content.index(salt)
    content[at : at + SALT_BYTES] = bytes(SALT_BYTES)  # what somebody else knows
    path.write_bytes(content)
    (other,), _ = prove()
    assert other not in (salt, bytes(SALT_BYTES))


def test_no_other_file_has_it(prove: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (salt, _), proof = prove(InvalidProof("the wrap does not verify"), device=True)
    words = [str(word) for size in ("<u4", "<u8") for word in np.frombuffer(salt, dtype=size).tolist()]
    forms = [salt, salt.hex().encode(), b64encode(salt)[:-1], str(list(salt)).encode(), *map(str.encode, words)]
    holding = {
        path.name for path in tmp_path.rglob("*") if path.is_file() and any(form in path.read_bytes() for form in forms)
    }
    assert holding == {PROOF_FILE}
    assert (tmp_path / "run" / "report.json").exists()
    for text in (repr(proof), str(proof), caplog.text):
        assert not any(form.decode(errors="replace") in text for form in forms)
