"""Makes support modules importable: those of all tests, and the makers of small files beside the tests of a format."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("", "groth16", "stark", "reports"):
    sys.path.append(str(Path(__file__).resolve().parent.parent / folder))
