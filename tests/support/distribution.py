"""How tests are spread over processes: the tests of a file share fixtures and stay in one process, and so do all tests
that need the Ray of the session. Units that take longest begin first, so that no process ends long after the others."""

from __future__ import annotations

from functools import cache

from tests.support import ROOT

RAY = "ray"
"""The unit of the tests over the Ray of the session: a second Ray would start beside the first one."""

_FIXTURES = ("ray_cluster", "ray_settings", "own_ray")

LONGEST: tuple[str, ...] = (
    RAY,
    "tests/groth16/aggregate/test_aggregate.py",
    "tests/groth16/test_setup.py",
    "tests/cluster/service/test_warm_jobs.py",
    "tests/cluster/service/test_refusals.py",
    "tests/emulation/test_msm.py",
    "tests/cluster/record/test_run.py",
    "tests/stark/riscv/test_machine.py",
    "tests/cluster/service/test_long_witnesses.py",
    "tests/stark/test_mutations.py",
    "tests/stark/riscv/test_machine_attacks.py",
    "tests/cli/test_environment.py",
    "tests/cluster/executor/test_guard.py",
    "tests/cluster/executor/test_processes.py",
    "tests/cli/test_commands.py",
    "tests/emulation/test_streamed_key.py",
    "tests/emulation/test_stark.py",
    "tests/stark/riscv/test_edge_elves.py",
    "tests/stark/riscv/test_keccak_attacks.py",
    "tests/emulation/test_inner_products.py",
    "tests/stark/test_statements.py",
    "tests/stark/test_outputs.py",
    "tests/stark/recursion/test_parity.py",
    "tests/stark/recursion/test_tables.py",
    "tests/cluster/service/test_service.py",
    "tests/emulation/test_backend.py",
    "tests/stark/test_multilinear_mutations.py",
    "tests/emulation/test_goldilocks_transforms.py",
    "tests/cli/test_bench_command.py",
    "tests/groth16/aggregate/test_srs.py",
    "tests/stark/test_file_root_narrow.py",
    "tests/emulation/test_goldilocks_rows.py",
    "tests/cluster/executor/test_ray_folder.py",
    "tests/cluster/scheduler/test_random.py",
    "tests/stark/test_file_root.py",
    "tests/cluster/record/test_run_folder.py",
)
"""Units that take more than some ten seconds of a core, or wait as long, the longest first."""


def unit_of(nodeid: str) -> str:
    """The unit of a test: its file, or `RAY`. Services begin a Ray of their own."""
    file, _, test = nodeid.partition("::")
    in_cluster = "/cluster/" in file and "/service/" not in file
    return RAY if in_cluster and ("[ray" in test or _takes_ray(file)) else file


@cache
def _takes_ray(file: str) -> bool:
    text = (ROOT / file).read_text()
    return any(name in text for name in _FIXTURES)


def rank_of(nodeid: str) -> int:
    """The place of a test's unit among the longest; that of all others is behind them."""
    unit = unit_of(nodeid)
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)
