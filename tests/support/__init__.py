"""What tests in several folders share: small proof systems, makers of files, references."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
"""The repository: where processes that tests start find the packages and `tests`."""

LONG = pytest.mark.skipif(
    os.environ.get("DISTPROVE_LONG") != "1",
    reason="takes a minute of Ray nodes that come and go: DISTPROVE_LONG=1 has it run",
)
"""Marks a test that is for a quiet machine, by itself."""
