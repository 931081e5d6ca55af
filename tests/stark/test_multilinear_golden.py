"""The multilinear engine's golden jobs: today's prover makes them byte for byte, and both verifiers accept them."""

from __future__ import annotations

from typing import Any

import pytest

from distprove.errors import FormatError
from distprove.stark.field import P
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.shape import Shape
from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash
from kernels.maths.poseidon2_bn254 import R
from tests.stark.test_golden import UsedMemory
from tests.support import second_multilinear_verifier as second
from tests.support.golden_jobs import FOLDER
from tests.support.multilinear_golden import JOBS, golden, golden_job, prove_golden, to_bytes


@pytest.mark.parametrize("name", JOBS)
def test_the_kept_proof_is_made_byte_for_byte(name: str) -> None:
    with CpuBackend(threads=1) as backend:
        made = prove_golden(JOBS[name], backend)
    assert to_bytes(made) == (FOLDER / f"{name}.msgpack").read_bytes()


@pytest.mark.parametrize("name", JOBS)
def test_what_lies_in_memory_reaches_no_proof(name: str) -> None:
    with UsedMemory() as memory, CpuBackend(threads=2, arena=memory) as backend:
        made = prove_golden(JOBS[name], backend)
    assert to_bytes(made) == (FOLDER / f"{name}.msgpack").read_bytes()


@pytest.mark.parametrize("name", JOBS)
def test_both_verifiers_accept(name: str) -> None:
    golden_job(name).check()
    record = golden(name)
    parts = [(p["name"], p["public"], p["proof"]) for p in record["partitions"]]
    second.verify_job(record["key"], parts, record.get("output"))


@pytest.mark.parametrize("name", JOBS)
def test_records_are_read_as_they_were_written(name: str) -> None:
    job = golden_job(name)
    assert job.key.to_record() == golden(name)["key"]
    for part in job.proofs:
        proof, _ = MultilinearProof.from_record(part.data, job.key)
        assert proof.to_record() == part.data


@pytest.mark.parametrize("number", [R, R + 1, 2**256 - 1, R - 1])
def test_a_root_beyond_r_is_none_of_the_hash_over_bn254(number: int) -> None:
    """In a circuit over this field it would be the same constant as another key's root."""
    record = golden("multilinear-bn254")["key"]
    record = {**record, "preprocessed_root": number.to_bytes(32, "little")}
    if number < R:
        second.Key(record)
        assert MultilinearKey.from_record(record).preprocessed_root == record["preprocessed_root"]
        return
    with pytest.raises(FormatError, match="the root of the preprocessed columns"):
        MultilinearKey.from_record(record)
    with pytest.raises(second.Refused):
        second.Key(record)


@pytest.mark.parametrize("name", ["multilinear-poseidon2", "multilinear-ring"])
def test_a_root_of_words_beyond_p_is_none_of_a_hash_over_field_elements(name: str) -> None:
    """A circuit has the root as four constants, which would stand for another key's as well."""
    record = golden(name)["key"]
    record = {**record, "preprocessed_root": record["preprocessed_root"][:24] + P.to_bytes(8, "little")}
    if name == "multilinear-ring":  # under Keccak-256
        second.Key(record)
        assert MultilinearKey.from_record(record).preprocessed_root == record["preprocessed_root"]
        return
    with pytest.raises(FormatError, match="the root of the preprocessed columns"):
        MultilinearKey.from_record(record)
    with pytest.raises(second.Refused):
        second.Key(record)


def test_the_jobs_take_every_path_of_the_protocol() -> None:
    """What the golden jobs are for: a change of them must not leave a part of the specification without a witness."""
    names = ("scopes", "rounds", "folds", "skip", "shrink", "blowup", "lower", "absent", "degree", "hash", "output")
    seen: dict[str, set[Any]] = {name: set() for name in names}
    for name in JOBS:
        job = golden_job(name)
        params = job.key.params
        for part in job.proofs:
            shape = Shape(job.key, tuple(None if h == 255 else h for h in part.data["heights"]))
            seen["scopes"] |= {tuple(shape.leaves.scopes)}
            seen["rounds"] |= {len(shape.rounds)}
            seen["folds"] |= {r.log_fold for r in shape.rounds}
            seen["lower"] |= {shape.log_height - shape.preprocessed.log_height if shape.preprocessed.width else None}
            seen["absent"] |= {len(job.key.tables) - len(shape.tables)}
            seen["degree"] |= {shape.degree}
        seen["skip"] |= {params.log_skip}
        seen["shrink"] |= {params.log_shrink}
        seen["blowup"] |= {params.blowup}
        seen["hash"] |= {params.tree_hash}
        seen["output"] |= {job.output is not None}
    assert seen["scopes"] == {(), ("local",), ("global",), ("local", "global")}
    assert seen["rounds"] >= {1, 2, 3}
    assert len(seen["folds"]) > 1
    assert seen["skip"] == {0, 1, 2, 3}
    assert seen["shrink"] == {1, 2, 3}
    assert seen["blowup"] == {2, 4, 8}
    assert seen["lower"] > {None, 0}
    assert len(seen["absent"]) > 1
    assert max(seen["degree"]) >= 5
    assert seen["hash"] == set(TreeHash)
    assert seen["output"] == {False, True}
