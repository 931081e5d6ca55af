"""The second root of a job's file, which may be anyone's: no key of its tree is made before the file is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from distprove.errors import FormatError, InvalidProof, TooMuchWork, UsageError
from distprove.proof import Proof
from distprove.stark.keyfile import shipped_key
from distprove.stark.programs import load_program
from distprove.stark.recursion import tree_keys
from distprove.stark.recursion.plan import ROOT, WRAP
from distprove.stark.recursion.whole import checked_key, kinds_of_listed
from distprove.stark.recursion.work import tree_wires
from distprove.stark.wrap import listed
from distprove.stark.wrap.listed import LEAST, second_root_of
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from tests.support.one_proofs import OneProofs


@pytest.fixture(scope="module")
def job() -> Proof:
    with CpuBackend(threads=1) as cpu:
        return OneProofs(cpu).prove(load_program("fibonacci", {"rows": 16}))


def bound(job: Proof, **changed: object) -> Proof:
    """The file of a job with something else in it, which its binding fits."""
    partitions: Sequence[PartitionProof] = job.partitions
    given = {"system": job.system, "key": job.key_digest, "partitions": partitions, "whole": job.whole, **changed}
    return Proof.bind(verification_key=job.verification_key, **given)  # type: ignore[arg-type]


def test_bits_are_those_of_the_weakest_layer_with_the_second_root(job: Proof) -> None:
    root = second_root_of(job, None, 1)
    assert root.key.params.tree_hash is tree_keys.WRAPS[1]
    assert 1 <= root.bits < 64
    assert second_root_of(job, None, root.bits) == root
    with pytest.raises(InvalidProof, match="are asked for"):
        second_root_of(job, None, root.bits + 0.01)


def test_no_key_is_made_for_a_file_that_is_refused(job: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "node_key", lambda *_: pytest.fail("a key was made"))
    key = checked_key(shipped_key(job.verification_key)[0])
    wires = tree_wires(key, kinds_of_listed(key, job.partitions)[ROOT].leaves)
    with pytest.raises(TooMuchWork):
        second_root_of(job, None, 1, wires - 1)
    with pytest.raises(InvalidProof, match=f"{LEAST:g} are asked for"):
        second_root_of(job, None)
    with pytest.raises(InvalidProof, match="are asked for"):
        second_root_of(job, None, float("nan"))
    with pytest.raises(FormatError, match="of system 'bogus'"):
        second_root_of(bound(job, system="bogus"), None, 1)
    with pytest.raises(InvalidProof, match="the proof is for key 0000"):
        second_root_of(bound(job, key=bytes(32)), None, 1)
    with pytest.raises(FormatError):
        second_root_of(bound(job, partitions=[replace(job.partitions[0], data={})]), None, 1)
    with pytest.raises(UsageError, match="only STARK jobs that end in one proof"):
        second_root_of(bound(job, whole=None), None, 1)


def test_the_key_is_that_of_the_jobs_tree(job: Proof) -> None:
    key = checked_key(shipped_key(job.verification_key)[0])
    kind = kinds_of_listed(key, job.partitions)[ROOT].of_role(WRAP)
    assert second_root_of(job, None, 1, 10_000_000).key.digest == tree_keys.node_key(key, kind).digest
