"""What malloc keeps: large blocks go back to the system when they are freed, and threads share arenas."""

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
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=200)
    assert int(done.stdout) < 1 << 20


THREADS = """
import ctypes, threading
from distprove.host.memory import share_arenas

share_arenas()
libc, together = ctypes.CDLL(None), threading.Barrier(12)
libc.fdopen.restype = libc.malloc.restype = ctypes.c_void_p

def allocate():
    together.wait()  # all of them live at once
    libc.malloc(2000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
told = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, told)
libc.fflush(told)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_many_threads_share_two_arenas() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.count("<heap ") == 2
    alone = THREADS.replace("share_arenas()\n", "")
    done = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.count("<heap ") > 2
