"""How the tests are spread over processes."""

from __future__ import annotations

import pytest

from tests.support import ROOT
from tests.support.distribution import LONGEST, RAY, rank_of, unit_of


def test_the_units_that_begin_first_exist() -> None:
    assert [unit for unit in LONGEST if unit != RAY and not (ROOT / unit).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


@pytest.mark.parametrize(
    ("file", "test", "together"),
    [
        ("tests/cluster/test_driver.py", "test_a_key_at_fault_fails_the_job[ray]", True),
        ("tests/cluster/test_driver.py", "test_a_key_at_fault_fails_the_job[local]", False),
        ("tests/cluster/executor/test_ray.py", "test_no_node_verifies_what_it_proved", True),
        ("tests/cluster/test_one_proof.py", "test_ray_gives_the_same_proof_on_two_nodes", True),
        ("tests/cluster/test_one_proof.py", "test_a_job_with_a_barrier", False),
        ("tests/cluster/test_real_job.py", "test_snarkjs_accepts_an_export_of_the_submitted_job", True),
        ("tests/cluster/scheduler/test_random.py", "test_long_schedules_too", False),
        ("tests/cluster/service/test_warm_jobs.py", "test_a_warm_job_proves_what_it_proves_alone[ray]", False),
        ("tests/test_imports.py", "test_a_private_part_of_ray_is_seen[ray.util._x]", False),
    ],
)
def test_tests_over_the_ray_of_the_session_stay_together(file: str, test: str, together: bool) -> None:
    assert unit_of(f"{file}::{test}") == (RAY if together else file)


def test_the_longest_begin_first() -> None:
    assert rank_of("tests/cluster/executor/test_ray.py::test_no_node_verifies_what_it_proved") == 0
    assert rank_of(f"{LONGEST[1]}::test_x") == 1
    assert rank_of("tests/test_errors.py::test_x") == len(LONGEST)
