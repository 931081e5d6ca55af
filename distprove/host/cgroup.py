"""The memory and CPU time that the control groups (cgroups) of this process grant it.

psutil reports the host, so a container's limits must be read from its cgroup. For version 2 that is every group from
the visible root down to the process's own; for version 1 it is the folders that are mounted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
"""Limits from here on mean no limit, for which version 1 writes a number near 2^63."""


@dataclass(frozen=True)
class MemoryLimit:
    """The memory limit of one control group and how much of it is used, in bytes."""

    limit: int
    used: int
    """Bytes that the kernel does not take back by itself: without the content of files that were not read lately."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


def memory_limit(root: Path = ROOT, own: Path = OWN) -> MemoryLimit | None:
    """The memory limit that leaves the fewest bytes; None without a limit. `root` and `own` are for tests."""
    return min(_memory_limits(root, own), key=lambda one: one.left, default=None)


def memory_available(root: Path = ROOT, own: Path = OWN) -> int:
    """Bytes of memory that can still be allocated, within both the machine and its control groups."""
    available = int(psutil.virtual_memory().available)
    group = memory_limit(root, own)
    return available if group is None else min(available, group.left)


def memory_total(root: Path = ROOT, own: Path = OWN) -> int:
    """Total bytes of memory, within both the machine and its control groups."""
    return min([int(psutil.virtual_memory().total), *(one.limit for one in _memory_limits(root, own))])


def cpu_quota(root: Path = ROOT, own: Path = OWN) -> float | None:
    """Number of CPUs whose time the strictest group grants; None without a limit."""
    quotas = []
    for folder in _groups(root, own):
        quota, _, period = (_text(folder / "cpu.max") or "max").partition(" ")
        quotas.append((quota, period))
    quotas.append((_text(root / "cpu/cpu.cfs_quota_us") or "-1", _text(root / "cpu/cpu.cfs_period_us") or ""))
    granted = [int(q) / int(p) for q, p in quotas if q.isdecimal() and p.isdecimal() and int(p) > 0]
    return min(granted, default=None)


def _memory_limits(root: Path, own: Path) -> list[MemoryLimit]:
    return [
        MemoryLimit(limit, max(0, (_number(folder / used) or 0) - _reclaimable(folder)))
        for folder, name, used in _memory_files(root, own)
        if (limit := _number(folder / name)) is not None and limit < _NO_LIMIT
    ]


def _reclaimable(folder: Path) -> int:
    """Bytes of files' content that count as used, and that the kernel takes back before it refuses any."""
    lines = (line.split() for line in (_text(folder / "memory.stat") or "").splitlines())
    found = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}
    return found.get("total_inactive_file", found.get("inactive_file", 0))  # the former in version 1


def _memory_files(root: Path, own: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield (folder, file of the limit, file of the usage) for each place where a memory limit may be found."""
    for folder in _groups(root, own):
        yield folder, "memory.max", "memory.current"
    yield root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"


def _groups(root: Path, own: Path) -> list[Path]:
    """The folders of this process's cgroup and its parents; in a container often only the root is visible."""
    folders = [root]
    for line in (_text(own) or "").splitlines():
        hierarchy, _, path = line.partition("::")
        if hierarchy == "0":
            for part in Path(path.lstrip("/")).parts:
                folders.append(folders[-1] / part)
    return folders


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.isdecimal() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
