"""The keyword arguments of `distprove.prove`, for type checkers: the keys of a job file and of its settings.

A job's proof system decides which of them it takes, and checks them when a job is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

File = str | Path
Files = File | Sequence[File]
Inputs = Files | Sequence[Mapping[str, Any]]
"""Files, globs, folders, or the values themselves."""


class JobOptions(TypedDict, total=False):
    """The keys of a job file, of any proof system: docs/jobs.md describes each. None leaves one out."""

    aggregate: File | None
    arguments: Mapping[str, int | str | Path]
    blowup: int | None
    c1: File | None
    circuit: str | None
    comm_d_new: str | None
    comm_r_new: str | None
    comm_r_old: str | None
    commitment_hash: str
    contract: bool
    engine: str | None
    gnark_pk: File | None
    gnark_vk: File | None
    grinding: int | None
    hash: str | None
    inputs: Inputs | None
    insecure_dev: bool
    key: File
    one_proof: bool
    params: File | None
    partitions: int | None
    porep_id: str | None
    prefer: str | None
    program: str | None
    proof_type: str | None
    prover_id: str | None
    queries: int | None
    r1cs: File | None
    randomness: str | None
    sector: int | None
    security: int | None
    traces: Files
    tree_wires: int | None
    update: File | None
    vk: File | None
    wasm: File | None
    window_post: File | None
    winning_post: File | None
    witnesses: Files | None
    wrap: bool
    wrap_key: File | None
    zkey: File | None
