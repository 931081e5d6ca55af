"""How tests are spread over processes: the tests of a file share fixtures and stay in one process, and so do all tests
that need the Ray of the session. Units that take longest begin first, so that no process ends long after the others."""

from __future__ import annotations

import re
from functools import cache

from tests.support import ROOT

RAY = "ray"
"""The unit of the tests over the Ray of the session: a second Ray would start beside the first one."""

RAY_FIXTURES = ("ray_cluster", "ray_settings", "own_ray")
"""Fixtures that give a test a Ray."""

LONGEST: tuple[str, ...] = (
    RAY,
    "tests/kernels/cuda/test_nvrtc.py",
    "tests/cli/test_small_machine.py",
    "tests/cluster/service/test_warm_jobs.py",
    "tests/groth16/test_setup.py",
    "tests/cluster/test_one_proof.py",
    "tests/groth16/aggregate/test_aggregate.py",
    "tests/cluster/executor/test_lost_ray.py",
    "tests/circuits/filecoin/test_row_digests.py",
    "tests/cluster/record/test_run.py",
    "tests/cluster/service/test_refusals.py",
    "tests/interop/test_solidity.py",
    "tests/emulation/test_multilinear.py",
    "tests/circuits/filecoin/test_circuits.py",
    "tests/cli/test_every_command.py",
    "tests/cluster/service/test_long_witnesses.py",
    "tests/emulation/test_streamed_key.py",
    "tests/stark/recursion/test_tree.py",
    "tests/stark/test_multilinear_keeping.py",
    "tests/fuzz/test_fuzz_short.py",
    "tests/stark/test_multilinear_memory.py",
    "tests/groth16/aggregate/test_srs.py",
    "tests/cluster/test_scheduler.py",
    "tests/cluster/test_driver.py",
    "tests/cluster/test_tree.py",
    "tests/test_imports.py",
    "tests/circuits/filecoin/test_hashes.py",
    "tests/kernels/interface/test_row_source.py",
    "tests/stark/riscv/test_levelled.py",
    "tests/cluster/service/test_service.py",
    "tests/stark/test_shipped_rows.py",
    "tests/stark/riscv/test_executor.py",
    "tests/cluster/executor/test_verifiers.py",
    "tests/cluster/test_set_aside.py",
    "tests/stark/test_multilinear_streaming.py",
    "tests/measure/test_fault_campaign.py",
    "tests/stark/test_streamed.py",
    "tests/stark/riscv/test_usage.py",
    "tests/cluster/test_faults.py",
    "tests/stark/riscv/test_guests.py",
    "tests/stark/riscv/test_elf.py",
    "tests/cli/test_bench_command.py",
    "tests/cluster/service/test_short.py",
    "tests/measure/test_service_load.py",
)
"""Units that take more than some ten seconds of a core, or wait as long, the longest first."""


def unit_of(nodeid: str) -> str:
    """The unit of a test: its file, or `RAY`. Services begin a Ray of their own."""
    file, _, test = nodeid.partition("::")
    in_cluster = "/cluster/" in file and "/service/" not in file
    return RAY if in_cluster and ("[ray" in test or test.partition("[")[0] in _taking_ray(file)) else file


@cache
def _taking_ray(file: str) -> frozenset[str]:
    """The tests of a file that take the Ray of the session: all of them if a fixture or helper there takes it."""
    parts = re.split(r"^(?=def |class )", (ROOT / file).read_text(), flags=re.MULTILINE)
    named = {found[1]: part for part in parts if (found := re.match(r"(?:def|class) (\w+)", part))}
    taking = {name for name, part in named.items() if any(fixture in part for fixture in RAY_FIXTURES)}
    return frozenset(taking if all(name.startswith("test_") for name in taking) else named)


def rank_of(nodeid: str) -> int:
    """The place of a test's unit among the longest; that of all others is behind them."""
    unit = unit_of(nodeid)
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)
