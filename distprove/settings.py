"""How a job is run: the `[executor]` table of a job file, the options of the command line, and the settings in Python.

Each setting is one field of `ExecutorSettings`. The keys of a job file and of a record, their kinds and bounds, the
options of the command line and the table in docs/jobs.md follow from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from distprove.errors import UsageError
from distprove.options import MAX_PARTITIONS, check_keys, keys_of, setting, settings_of

BYTES: Any = {"bounds": (1 << 20, 1 << 50), "size": True}
MAX_TIMEOUT = 7 * 24 * 3600


_ADDRESS = re.compile(r"auto|(ray://)?[^/]+:[0-9]+")
"""Addresses of a cluster that is joined."""


@dataclass(frozen=True)
class ExecutorSettings:
    """How a job is run. None means: chosen from what the machine or cluster has. Bounds are beyond what a machine has,
    and within what one survives."""

    local: bool | None = setting(
        "run on this machine without Ray, or over Ray; by default without, unless a cluster is named by `address` or "
        "RAY_ADDRESS, as inside a submitted job",
        flag="--local/--ray",
    )
    isolate: bool | None = setting(
        "without Ray: each worker in a process of its own, the default with GPUs, or all on threads of this one",
        flag="--isolate/--no-isolate",
    )
    address: str | None = setting(
        "join this Ray cluster: host:port, or auto for the one that RAY_ADDRESS names", flag="--address"
    )
    backend: str = setting("auto, cpu, cuda, or module:factory for one of your own", "auto", flag="--backend")
    gpus: int | None = setting("GPUs to use, at most; 0 for none", bounds=(0, 4096), flag="--gpus")
    threads: int | None = setting("CPU threads per node, at most", bounds=(1, 4096), flag="--threads")
    synthesisers: int | None = setting(
        "synthesisers in all, shared out among the workers, at least one for each", bounds=(1, 1024)
    )
    memory: int | None = setting("host memory per node for keys and witnesses, like 48GiB", **BYTES, flag="--memory")
    device_memory: int | None = setting(
        "memory of each device to use, at most; by default what is free there", **BYTES, flag="--device-memory"
    )
    in_flight: int = setting(
        "partitions with a prover at a time: one computes, the next one's data travels, the third waits there",
        3,
        bounds=(1, 64),
        flag="--in-flight",
    )
    parallel: int | None = setting(
        "partitions whose witness is in the making or ready, and not yet with a prover, at a time, over all workers",
        bounds=(1, MAX_PARTITIONS),
    )
    gpu_workers: int | None = setting(
        "provers per node; several may share a GPU, or the CPUs; by default one on each GPU, two where "
        "partitions are many and so small that one leaves it idle, or one on the CPUs",
        bounds=(1, 64),
        flag="--gpu-workers",
    )
    max_retries: int = setting(
        "how often a partition is tried again after a bad proof, a fault or a death", 3, bounds=(0, 1000)
    )
    start_timeout: float = setting(
        "seconds a worker may take to load its key before it is given up", 600.0, bounds=(0, MAX_TIMEOUT)
    )
    hang_timeout: float = setting(
        "seconds of silence after which a worker is ended, and the least that a step of a partition may take",
        60.0,
        bounds=(0, MAX_TIMEOUT),
    )
    wait_for_nodes: float | None = setting(
        "seconds for which a job on a cluster waits for a node to join once its last worker is given up; by default it "
        "ends",
        bounds=(0, MAX_TIMEOUT),
    )
    throttle: Mapping[str, int] = setting(
        "what may run at a time per node, so that memory bandwidth is not fought over, like { threads = 8 }: `threads` "
        "that synthesise and prove on the CPUs, by default all, and `deallocations` of large host memory, by default 1",
        dict,
    )

    def __post_init__(self) -> None:
        if self.local and self.address is not None:
            raise UsageError("local and address exclude each other")
        if self.address is not None and not _ADDRESS.fullmatch(self.address):
            dashboard = self.address.startswith(("http://", "https://"))
            hint = "; a dashboard takes whole commands: ray job submit --address" if dashboard else ""
            raise UsageError(f"address must be HOST:PORT of a Ray's head, or auto, not {self.address!r}{hint}")
        if self.isolate is not None and (self.local is False or self.address is not None):
            raise UsageError("isolate is for local: over Ray every worker is a process")
        settings = settings_of(ExecutorSettings)
        for name, told in settings.items():
            if getattr(self, name) is not None:
                told.check(name, getattr(self, name))
        check_keys(self.throttle, dict.fromkeys(("threads", "deallocations"), (int,)), "throttle.")
        for name, most in self.throttle.items():
            settings["threads"].check(f"throttle.{name}", most)

    def changed(self, given: Mapping[str, Any]) -> ExecutorSettings:
        """These settings with those of `given` that are not None, as a job file has them. Raises UsageError."""
        changes = {name: value for name, value in given.items() if value is not None}
        check_keys(changes, keys_of(ExecutorSettings), "executor.")
        changes = in_bytes(changes)
        # Being told to stay on this machine is an answer to an address, and the other way round.
        if changes.get("local") and "address" not in changes:
            changes["address"] = None
        if "address" in changes and "local" not in changes:
            changes["local"] = None
        if changes.get("address") or changes.get("local") is False:
            changes.setdefault("isolate", None)
        return replace(self, **changes)


Settings = ExecutorSettings | Mapping[str, Any]
"""Settings in place of a job's: all of them, or by name those that change."""


def settings_from(table: Mapping[str, Any]) -> ExecutorSettings:
    """The settings in a job file, or in a record, whose None are left out. Raises UsageError."""
    if not table:
        return _usual()
    check_keys(table, keys_of(ExecutorSettings), "executor.")
    return ExecutorSettings(**in_bytes(table))


@cache
def _usual() -> ExecutorSettings:
    return ExecutorSettings()


def in_bytes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with sizes that are written like "48GiB" as numbers of bytes. Raises UsageError."""
    told, made = settings_of(ExecutorSettings), dict(given)
    for name, value in given.items():
        if told[name].size and isinstance(value, str):
            try:
                made[name] = parse_bytes(value)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None
    return made


def parse_bytes(text: str) -> int:
    """Bytes from "48GiB", "500 MB" or "1024". Raises UsageError."""
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(i?)(b?)\s*", text, re.IGNORECASE | re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"{text!r} is not a size in bytes; write it like 48GiB or 500MB")
    power = " kmgt".index(match[2].lower()) if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)
