"""Large blocks go back to the system when they are freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np, psutil
from distprove.host.memory import give_back_large_blocks

give_back_large_blocks()
np.ones(1 << 20)  # from here on glibc would keep blocks of this size
before = psutil.Process().memory_info().rss
held = []
for _ in range(4):  # small blocks between large ones keep the heap from shrinking
    large = np.ones(1 << 18)
    held.append(np.ones(4096))
    del large
print(psutil.Process().memory_info().rss - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_does_not_stay() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 1 << 20
