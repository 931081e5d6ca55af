"""Reads how a machine's logical CPUs share cores, caches and memory, as Linux shows it under /sys/devices/system.

Anything that cannot be read is left out: in a container or a virtual machine any of it may be missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/devices/system")
_MAX_CPUS = 1 << 16
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Domain:
    """A group of logical CPUs that share a cache or a NUMA node's memory."""

    cpus: str
    """Numbers of the CPUs that this process may use, as the kernel writes them, such as "0-7,96-103"."""
    count: int
    nbytes: int = 0
    """Size of the shared cache or memory in bytes; 0 where it is not known."""


@dataclass(frozen=True)
class Topology:
    """The cores, caches and NUMA nodes that this process may use. Unknown parts are empty tuples and zeros."""

    cores: int = 0
    """Number of physical cores."""
    siblings: int = 0
    """Maximum number of logical CPUs per core: 2 with SMT."""
    l3: tuple[Domain, ...] = ()
    """Groups of CPUs that share a third-level cache, with its size."""
    numa: tuple[Domain, ...] = ()
    """NUMA nodes with their memory."""

    def __str__(self) -> str:
        """Describe the topology in words for people; empty when nothing is known."""
        parts = []
        if self.cores:
            parts.append(f"{self.cores} cores" + (f" x {self.siblings} threads" if self.siblings > 1 else ""))
        if self.l3:
            sizes = sorted({domain.nbytes for domain in self.l3})
            each = " or ".join(f"{size / 2**20:g} MiB" for size in sizes)
            parts.append(f"{len(self.l3)} L3 domain{'s' if len(self.l3) > 1 else ''} of {each}")
        if self.numa:
            parts.append(f"{len(self.numa)} NUMA node{'s' if len(self.numa) > 1 else ''}")
        return ", ".join(parts)


def read_topology(root: Path = ROOT, usable: Collection[int] | None = None) -> Topology:
    """Read the topology of the logical CPUs with numbers `usable`; None means this process's affinity mask."""
    if usable is None:
        usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores: set[frozenset[int]] = set()
    caches: dict[frozenset[int], int] = {}
    for cpu in sorted(usable):
        folder = root / "cpu" / f"cpu{cpu}"
        siblings = _cpus(folder / "topology" / "core_cpus_list") or _cpus(folder / "topology" / "thread_siblings_list")
        if cpu in siblings:
            cores.add(siblings & frozenset(usable))
        for cache in _numbered(folder / "cache", "index"):
            if _text(cache / "level") == "3" and _text(cache / "type") in ("Unified", "Data"):
                sharing = _cpus(cache / "shared_cpu_list")
                if cpu in sharing:
                    caches[sharing & frozenset(usable)] = _size(_text(cache / "size"))
    nodes = {
        _cpus(folder / "cpulist") & frozenset(usable): _node_memory(folder)
        for folder in _numbered(root / "node", "node")
    }
    return Topology(
        cores=len(cores),
        siblings=max(map(len, cores), default=0),
        l3=_domains(caches),
        numa=_domains({cpus: nbytes for cpus, nbytes in nodes.items() if cpus}),
    )


def _domains(found: dict[frozenset[int], int]) -> tuple[Domain, ...]:
    ordered = sorted(found.items(), key=lambda item: min(item[0]))
    return tuple(Domain(_written(cpus), len(cpus), nbytes) for cpus, nbytes in ordered)


def _numbered(folder: Path, prefix: str) -> Iterator[Path]:
    """Yield the folder's entries whose names are the prefix and a number, in the order of the numbers."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return
    numbers = [int(name[len(prefix) :]) for name in names if re.fullmatch(prefix + "[0-9]{1,6}", name)]
    for number in sorted(numbers):
        yield folder / f"{prefix}{number}"


def _cpus(path: Path) -> frozenset[int]:
    """Parse a file with a CPU list such as "0-7,96-103"; empty when it cannot be read."""
    found: set[int] = set()
    for part in (_text(path) or "").split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return frozenset()
        begin, end = int(first), int(last or first)
        if end >= _MAX_CPUS:
            return frozenset()
        found.update(range(begin, end + 1))
    return frozenset(found)


def _written(cpus: frozenset[int]) -> str:
    """Write a set of CPU numbers as the shortest CPU list, such as "0-7,96-103"."""
    parts: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1] = (parts[-1][0], cpu)
        else:
            parts.append((cpu, cpu))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _size(text: str | None) -> int:
    """Number of bytes in a size such as "36608K"; 0 if it cannot be parsed."""
    match = re.fullmatch("([0-9]{1,12})([KMG]?)", text or "")
    return int(match[1]) * _UNITS[match[2]] if match else 0


def _node_memory(folder: Path) -> int:
    match = re.search(r"MemTotal:\s*([0-9]{1,15}) kB", _text(folder / "meminfo") or "")
    return int(match[1]) << 10 if match else 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return None
