"""What a governor sees of its node now and then: CPUs, memory and leases, the memory of our processes, and the GPUs.
`cluster.record.nodestory` reads what is told of it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from actors import patience
from cluster.governor.state import Ledger
from distprove.host.cgroup import memory_limit
from distprove.host.telemetry import GpuReading, GpuTelemetry

KEPT = 400
"""Samples kept, at most: with more, every second one is dropped and they are taken half as often."""
NAMED = "distprove-"
"""The beginning of the argument that names a process of ours."""


class Samples:
    """Samples of one node, spread over the life of its governor. Not thread-safe."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        """As reports have them; "t" is in seconds on the caller's clock."""
        self._every = patience.GOVERNOR_LOOK
        self._due = float("-inf")
        psutil.cpu_percent()  # its first value means nothing: it is counted from the call before

    def take(self, now: float, state: Ledger) -> None:
        """Take a sample, if one is due."""
        if now < self._due:
            return
        self._due = now + self._every
        self.taken.append(
            {
                "t": now,
                "cpu": round(psutil.cpu_percent() / 100, 4),
                "memory_used": _memory_used(),
                "memory_leased": state.memory,
                "leases": state.held,
                "queue": state.queue,
            }
        )
        if len(self.taken) > KEPT:
            self.taken = self.taken[::2]
            self._every *= 2


@dataclass
class _GpuStory:
    """A GPU over the life of its governor."""

    first: GpuReading
    last: GpuReading
    looks: int = 0
    utilisation: float = 0.0
    """Sums over the looks."""
    watts: float = 0.0
    watts_most: float = 0.0
    celsius_most: int = 0
    memory_most: int = 0

    def add(self, reading: GpuReading) -> None:
        self.last = reading
        self.looks += 1
        self.utilisation += reading.utilisation or 0.0
        self.watts += reading.watts or 0.0
        self.watts_most = max(self.watts_most, reading.watts or 0.0)
        self.celsius_most = max(self.celsius_most, reading.celsius or 0)
        self.memory_most = max(self.memory_most, reading.memory_used or 0)

    def report(self) -> dict[str, Any]:
        new = (self.last.ecc_errors or 0) - (self.first.ecc_errors or 0)
        return {
            **asdict(self.last),
            "utilisation": round(self.utilisation / self.looks, 4),
            "watts": round(self.watts / self.looks, 1),
            "watts_most": self.watts_most,
            "celsius_most": self.celsius_most,
            "memory_most": self.memory_most,
            "ecc_errors": max(0, new),
            "xids": {str(code): count for code, count in self.last.xids.items()},
        }


class NodeWatch:
    """The most memory that each process of ours was resident in, by the kernel's own count, and readings of the GPUs.
    Thread-safe; a look takes milliseconds and is not for a thread that must answer."""

    def __init__(self, *, beside: bool = False) -> None:
        """`beside`: our processes are those that this process's parent started, not those that it started itself."""
        self._telemetry: GpuTelemetry | None = None
        self._opened = False
        self._beside = beside
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._peaks: dict[str, int] = {}
        self._gpus: dict[str, _GpuStory] = {}

    def look(self, *, age: float = patience.NODE_LOOK) -> None:
        """Look at the node, unless the last look is less than `age` seconds old."""
        with self._lock:
            if time.monotonic() < self._looked + age:
                return
            self._processes()
            if not self._opened:
                self._telemetry, self._opened = GpuTelemetry.open(), True
            for reading in self._telemetry.read() if self._telemetry is not None else ():
                self._gpus.setdefault(reading.uuid, _GpuStory(reading, reading)).add(reading)
            self._looked = time.monotonic()

    def report(self) -> dict[str, Any]:
        """Plain data: "processes", bytes by name, and "gpus". Averages and maxima are over the looks."""
        with self._lock:
            return {"processes": dict(self._peaks), "gpus": [story.report() for story in self._gpus.values()]}

    def close(self) -> None:
        with self._lock:
            if self._telemetry is not None:
                self._telemetry.close()
            self._telemetry, self._opened = None, True

    def _processes(self) -> None:
        with suppress(psutil.Error, OSError):  # no descriptor is free: there is another look
            own = psutil.Process()
            root = (own.parent() or own) if self._beside else own
            for process in root.children(recursive=True):
                with suppress(psutil.Error, OSError):  # it ended meanwhile
                    named = next((word for word in process.cmdline() if word.startswith(NAMED)), None)
                    if named is not None:
                        name = named.removeprefix(NAMED)
                        self._peaks[name] = max(self._peaks.get(name, 0), _most_resident(process))


def _most_resident(process: psutil.Process) -> int:
    """Bytes: the kernel's peak, or what is resident now on systems that keep none."""
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return int(process.memory_info().rss)


def _memory_used() -> int:
    """Bytes, within the control group if there is one."""
    virtual, group = psutil.virtual_memory(), memory_limit()
    return group.used if group is not None and group.limit < virtual.total else int(virtual.total - virtual.available)
