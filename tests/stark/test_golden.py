"""The golden jobs: today's provers make them byte for byte, and two independent verifiers accept them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.stark.heights import encode_heights
from distprove.stark.proof import StarkProof
from distprove.stark.security import job_security
from distprove.stark.verifying_key import VerifyingKey
from kernels.cpu.backend import CpuBackend
from kernels.host.arena import HostArena
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.interface.tree_hash import TreeHash
from tests.support import second_verifier
from tests.support.golden_jobs import FOLDER, JOBS, golden, prove_job
from tests.support.golden_verifiers import VERIFIERS, Verify
from tests.support.stark_reference import ReferenceBackend


@pytest.mark.parametrize("backend", [CpuBackend, ReferenceBackend])
@pytest.mark.parametrize("name", JOBS)
def test_every_backend_makes_the_kept_proof_byte_for_byte(name: str, backend: type[Backend]) -> None:
    with backend(threads=1) as used:  # type: ignore[call-arg]
        made = prove_job(JOBS[name], used)
    assert made.to_bytes() == (FOLDER / f"{name}.msgpack").read_bytes()


class UsedMemory(HostArena):
    """Memory that holds what somebody left there: no elements of the field."""

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        array = np.empty(shape, dtype)
        array.view(np.uint8).fill(0xFF)
        return array


@pytest.mark.parametrize("name", JOBS)
def test_what_lies_in_memory_reaches_no_proof(name: str) -> None:
    """Some of these tables read no selectors, which are then not made; a tree's array has words that no node takes."""
    with UsedMemory() as memory, CpuBackend(threads=2, arena=memory) as used:
        made = prove_job(JOBS[name], used)
    assert made.to_bytes() == (FOLDER / f"{name}.msgpack").read_bytes()


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("verify", VERIFIERS)
def test_both_verifiers_accept(name: str, verify: Verify) -> None:
    verify(golden(name))


@pytest.mark.parametrize("name", JOBS)
def test_the_second_verifier_draws_what_the_prover_drew(name: str) -> None:
    job = golden(name)
    partitions = [(p["name"], p["public"], p["proof"]) for p in job["partitions"]]
    assert second_verifier.verify_job(job["key"], partitions, job.get("output")) == job["transcript"]


@pytest.mark.parametrize("name", JOBS)
def test_records_are_read_as_they_were_written(name: str) -> None:
    job = golden(name)
    key = VerifyingKey.from_record(job["key"])
    assert key.to_record() == job["key"]
    for part in job["partitions"]:
        proof, _ = StarkProof.from_record(part["proof"], key)
        assert proof.to_record() == part["proof"]


@given(
    st.sampled_from(sorted(JOBS)),
    st.lists(st.none() | st.integers(0, 24), min_size=4, max_size=4),
    st.integers(1, 200),
    st.integers(0, 24),
    st.integers(1, 300),
)
@settings(max_examples=40)
def test_both_verifiers_count_the_same_bits(
    name: str, heights: list[int | None], queries: int, grinding: int, partitions: int
) -> None:
    record = golden(name)["key"]
    record["params"] |= {"queries": queries, "grinding_bits": grinding}
    key = VerifyingKey.from_record(record)
    tables = zip(heights, key.fixed_heights, key.optional, strict=False)
    fitting = tuple(None if h is None and o is not None else h or 0 if f is None else f for h, f, o in tables)
    second = second_verifier.Key(record)
    encoded = list(encode_heights(fitting))
    shape = second_verifier.Shape(second, encoded)
    bits = second_verifier.security_bits(second, shape, [encoded] * partitions)
    assert job_security(key, [fitting] * partitions).bits == pytest.approx(bits, abs=1e-9)


def test_the_jobs_take_every_path_of_the_protocol() -> None:
    """What the golden jobs are for: a change of them must not leave a part of the specification without a witness."""
    seen: dict[str, set[Any]] = {name: set() for name in ("arity", "mixes", "chunks", "rounds", "blowup", "hash")}
    for name in JOBS:
        job = golden(name)
        key = VerifyingKey.from_record(job["key"])
        _, shape = StarkProof.from_record(job["partitions"][0]["proof"], key)
        seen["arity"] |= {s.log_arity for s in shape.steps}
        seen["mixes"] |= {s.mixes for s in shape.steps}
        seen["chunks"] |= {t.quotient_chunks for t in key.tables}
        seen["rounds"] |= {tuple(shape.rounds)}
        seen["blowup"] |= {key.params.blowup}
        seen["hash"] |= {key.params.tree_hash}
    assert seen["arity"] == {1, 2, 3}
    assert seen["mixes"] == {False, True}
    assert seen["chunks"] >= {1, 2, 4}
    assert len(seen["rounds"]) == 4
    assert seen["blowup"] == {2, 4, 8}
    assert seen["hash"] == {TreeHash.KECCAK, TreeHash.POSEIDON2}
