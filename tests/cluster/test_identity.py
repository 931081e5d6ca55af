"""Identity of a partition: a job and a name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distprove.system import Partition, PartitionId


def test_an_identity_is_of_a_job_and_a_name() -> None:
    made: Any = Partition(0, "p0", b"", {})
    assert (made.id, replace(made, job="a").id) == (PartitionId("", "p0"), PartitionId("a", "p0"))
