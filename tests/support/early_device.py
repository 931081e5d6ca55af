"""Begins to open a device that is none."""

import os
from pathlib import Path


def begin(device: int) -> None:
    """Write which process it was."""
    (Path(os.environ["TOY_AHEAD"]) / f"early-{device}").write_text(str(os.getpid()))
