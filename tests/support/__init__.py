"""What tests in several folders share: small proof systems, makers of files, references."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository: where processes that tests start find the packages and `tests`."""
