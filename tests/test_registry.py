"""The table of proof systems: what jobs may name, and what proof files are verified with."""

from __future__ import annotations

from pathlib import Path

import pytest

from distprove import registry as systems
from distprove.errors import FormatError, UsageError
from distprove.job import SYSTEMS, Job
from distprove.options import Groth16Options


def test_every_system_that_a_job_may_name_is_in_the_table() -> None:
    assert set(SYSTEMS) == set(systems._SYSTEMS)


def test_other_names_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown proof system 'plonk'"):
        systems.load_system(Job("plonk", Groth16Options(zkey=Path("c.zkey"))))
    with pytest.raises(FormatError, match="of system 'plonk', which this distprove cannot verify"):
        systems.load_verifier("plonk", {}, None)


def test_a_key_that_came_with_the_proof_is_not_believed_unread() -> None:
    with pytest.raises(FormatError, match="verification key"):
        systems.load_verifier("groth16", {"curve": "bn128"}, None)
