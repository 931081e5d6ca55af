"""Makes the makers of small files importable, which stand beside the tests of each format."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("groth16", "stark", "reports"):
    sys.path.append(str(Path(__file__).resolve().parent.parent / folder))
