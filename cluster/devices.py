"""What this machine has: CUDA devices, and memory within the limits of its container."""

from __future__ import annotations

from pathlib import Path

import psutil


def cuda_devices() -> int:
    """CUDA devices that CuPy can use here; 0 without CuPy, a driver or a device."""
    try:
        import cupy
    except ImportError:
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def memory_limit(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes of memory this process may use: the machine's, or the least limit of the cgroups (v2) it is in.

    psutil reports the host, so a container's limit must be read from its cgroup. `root` and `own` are for tests.
    """
    limit = int(psutil.virtual_memory().total)
    for folder in _cgroups(root, own):
        try:
            text = (folder / "memory.max").read_text().strip()
        except OSError:
            continue  # the root group has no such file, and neither has cgroup v1
        if text.isdecimal():
            limit = min(limit, int(text))
    return limit


def memory_available(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes that can still be taken, within both the machine and its cgroups."""
    available = int(psutil.virtual_memory().available)
    for folder in _cgroups(root, own):
        try:
            limit = (folder / "memory.max").read_text().strip()
            used = int((folder / "memory.current").read_text())
        except (OSError, ValueError):
            continue
        if limit.isdecimal():
            available = min(available, max(0, int(limit) - used))
    return available


def _cgroups(root: Path, own: Path) -> list[Path]:
    """The folders of this process's cgroup and its parents; in a container often only the root is to be seen."""
    folders = [root]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        hierarchy, _, path = line.partition("::")
        if hierarchy == "0":
            folder = root
            for part in Path(path.lstrip("/")).parts:
                folder = folder / part
                folders.append(folder)
    return folders
