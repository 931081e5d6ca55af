"""Small jobs of the multilinear engine whose proofs are kept in golden; run it to write them again after a change of
protocol.

    python -m tests.support.multilinear_golden

Their parameters are far too weak for use; they are chosen so that few bytes take every path of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from distprove.formats import canonical
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import Parameters
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.interface.tree_hash import TreeHash
from tests.support.golden_jobs import FOLDER, Mixed
from tests.support.multilinear_jobs import MultilinearJob, prove_program
from tests.support.output_program import Writes
from tests.support.stark_programs import Ring, Sparse

POSEIDON2 = TreeHash.POSEIDON2


@dataclass(frozen=True)
class GoldenJob:
    program: Callable[[], Program]
    partitions: int
    params: Parameters


JOBS = {
    # No bus: no layers, no leaves. Three rounds of WHIR, the last of fewer folds.
    "multilinear-fibonacci": GoldenJob(
        lambda: load_program("fibonacci", {"rows": 1 << 9}), 3, Parameters(1, 3, (3, 2, 2), 5, 2, log_final=0)
    ),
    # Both scopes; preprocessed columns in a tree of the main one's height; a domain that shrinks to a quarter.
    "multilinear-ring": GoldenJob(lambda: Ring(6), 2, Parameters(2, 2, (2, 2), 3, 2, log_shrink=2, log_final=2)),
    # The local scope alone; a univariate round over one row; degree 5; three heights, one of them fixed; one round.
    "multilinear-mixed": GoldenJob(Mixed, 2, Parameters(3, 0, (2,), 0, 2, log_final=4)),
    # Absent tables, one with preprocessed columns, whose stack is not lower than the main one.
    "multilinear-sparse": GoldenJob(Sparse, 2, Parameters(1, 1, (2, 2, 2), 2, 2, log_final=1)),
    # The global scope alone, and an output.
    "multilinear-output": GoldenJob(
        lambda: Writes(b"seventeen bytes.."), 2, Parameters(1, 1, (4, 3), 1, 2, log_final=1)
    ),
    # The other hash; preprocessed columns far below the main stack.
    "multilinear-poseidon2": GoldenJob(
        lambda: Ring(9), 2, Parameters(1, 2, (2, 2, 2), 3, 2, log_shrink=3, log_final=2, tree_hash=POSEIDON2)
    ),
    # A job that a contract can read: the challenge of its places, and of its output.
    "multilinear-places": GoldenJob(
        lambda: Writes(b"a word, and two."),
        3,
        Parameters(1, 1, (4, 3), 1, 2, log_final=1, tree_hash=POSEIDON2, places=5),
    ),
    # Binary nodes under that hash.
    "multilinear-binary": GoldenJob(
        lambda: Ring(4), 1, Parameters(2, 2, (2, 2), 2, 2, log_final=2, tree_hash=TreeHash.POSEIDON2_BINARY)
    ),
    # Poseidon2 over BN254: digests of one element, three words of a leaf in each.
    "multilinear-bn254": GoldenJob(
        lambda: Ring(4), 2, Parameters(1, 2, (2, 2), 2, 2, log_final=2, tree_hash=TreeHash.POSEIDON2_BN254)
    ),
}


def prove_golden(job: GoldenJob, backend: Backend) -> MultilinearJob:
    return prove_program(job.program(), partitions=job.partitions, params=job.params, backend=backend)


def to_bytes(job: MultilinearJob) -> bytes:
    partitions = [{"name": p.name, "public": list(p.public), "proof": p.data} for p in job.proofs]
    output = {} if job.output is None else {"output": job.output}
    return canonical.encode({"key": job.key.to_record(), "partitions": partitions, **output})


def golden(name: str) -> dict[str, Any]:
    """The record of a kept job."""
    record: dict[str, Any] = canonical.decode((FOLDER / f"{name}.msgpack").read_bytes(), name)
    return record


def golden_job(name: str) -> MultilinearJob:
    """A kept job, read as a verifier reads it."""
    record = golden(name)
    proofs = tuple(PartitionProof(p["name"], bytes(32), tuple(p["public"]), p["proof"]) for p in record["partitions"])
    return MultilinearJob(MultilinearKey.from_record(record["key"]), proofs, record.get("output"))


def write() -> None:
    for name, job in JOBS.items():
        with CpuBackend(threads=1) as backend:
            data = to_bytes(prove_golden(job, backend))
        (FOLDER / f"{name}.msgpack").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    write()
