"""The Ray cluster that `--address auto` means: the one that this user runs on this machine.

Ray's own search takes any process that looks like one of its own, whoever's it is; and whoever runs a cluster is given
the token, and runs code in the drivers that join it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from distprove.errors import ClusterError
from kernels.host.scratch import RAY

_ADDRESS = "--gcs-address="


def own_cluster() -> str:
    """The address, host:port, of the only cluster that has a node here among this user's processes.

    What jobs started for themselves is left out. Raises ClusterError when there is none, and when there are several.
    """
    found = sorted({address for command in _own_raylets() for address in _addresses(command)})
    if not found:
        raise ClusterError("no Ray of this user runs on this machine; name the one to join: --address HOST:PORT")
    if len(found) > 1:
        raise ClusterError(f"this user has several Rays on this machine: name one of {', '.join(found)} with --address")
    return found[0]


def _own_raylets() -> Iterator[list[str]]:
    """The command lines of this user's processes that are nodes of a cluster."""
    for process in psutil.process_iter():
        try:
            if set(process.uids()) == {os.geteuid()}:
                command = process.cmdline()
                if command and os.path.basename(command[0]) == "raylet":
                    yield command
        except psutil.Error:
            continue  # it has ended, or does not let us look


def _addresses(command: list[str]) -> Iterator[str]:
    """The cluster's address stands in the commands that a node starts its workers with."""
    words = [word for argument in command for word in argument.split(" ")]
    if not any(f"/{RAY}" in word for word in words):
        yield from (word.removeprefix(_ADDRESS) for word in words if word.startswith(_ADDRESS))
