"""The walk of a witness that docs/architecture.md describes is the one that a witness takes."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cluster.scheduler import batches
from tests.cli.conftest import SmallJob, run
from tests.support import ROOT

STOPS = {
    "actors/worker.py": "take",  # the order is there
    "distprove/groth16/wtns.py": "read_wtns",  # the witness is
    "kernels/cpu/groups.py": "_msm",  # it ends
    "distprove/groth16/quotient.py": "quotient_scalars",
    "cluster/scheduler/machine.py": "_news",  # the proof is told,
    "distprove/groth16/verifier.py": "verify_batch",  # verified,
    "cluster/record/run.py": "store",  # kept,
    "distprove/proof.py": "assemble",  # and bound
}
"""Stops of the walk, by their files: whatever is on the stack there lies on the way."""
NAMES = frozenset(STOPS.values())
PASSED_BEFORE_OR_INSTEAD = {
    "distprove/cli/app.py",
    "distprove/job.py",
    "distprove/groth16/inputs.py",
    "distprove/groth16/witness.py",
    "kernels/cuda/msm.py",
}
"""Files that are described, and return before the witness is under way, or belong to another one's walk."""


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, set[str]]]:
    """Files of the project on the stack at each stop, as they are passed."""
    monkeypatch.setattr(batches, "_IDLE", batches._Idle())  # threads that began before are not followed
    found: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_name not in NAMES:
            return
        stop = _file(frame)
        if stop is not None and STOPS.get(stop) == frame.f_code.co_name:
            above: FrameType | None = frame
            while above is not None:
                name = _file(above)
                if name is not None:
                    found.setdefault(stop, set()).add(name)
                above = above.f_back

    threading.setprofile(note)
    sys.setprofile(note)
    yield found
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]  # as documented


def _file(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] not in ("tests", ".venv")
    return path.relative_to(ROOT).as_posix() if inside else None


def test_a_witness_passes_the_files_that_are_described(
    small_job: SmallJob, tmp_path: Path, passed: dict[str, set[str]]
) -> None:
    done = run(*small_job.prove(tmp_path / "run", "--no-isolate", "--backend", "cpu"))
    assert done.exit_code == 0, done.output
    assert passed.keys() == STOPS.keys()
    text = (ROOT / "docs/architecture.md").read_text().partition("## The walk of a witness")[2]
    steps = text[text.index("\n1. ") : text.index("Without `--no-isolate`")]
    described = set(re.findall(r"`([a-z_0-9/]+\.py)`", steps))
    assert described - PASSED_BEFORE_OR_INSTEAD == set().union(*passed.values())
    assert described >= PASSED_BEFORE_OR_INSTEAD
