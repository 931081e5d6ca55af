"""Makes the runs of short jobs, in a process of its own: a job's files take the system as long as the job takes the
service beside them, and the text in them holds the interpreter's lock.

The process writes for one service and no longer: it ends with the connection to it, whatever it is at, and holds a lock
of its own as long as it lives. The next service in the folder waits for that lock, so nothing is written any more when
it looks at what runs there are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from actors import patience
from actors.grants import Ungoverned
from actors.processes import HostProcess
from actors.protocol import WorkerDied
from cluster.record.run import take_lock
from cluster.record.short import Common, Proven
from distprove.errors import DistproveError, InUse, ResourceError
from distprove.formats.folder import Folder
from distprove.host.beside import in_background
from distprove.proof import PROOF_FILE

RUNS, LOCK = "runs", "writer.lock"
"""Names in the service's folder: that of the runs, and the lock of whoever writes them for it."""


class Writer:
    """Makes runs of short jobs: this one on the thread that asks."""

    def __init__(self, runs: Folder, lock: IO[str] | None = None) -> None:
        """It holds the `lock` as long as it is there."""
        self._runs = runs
        self._lock = lock

    def add(self, common: Common, proven: list[Proven]) -> list[bytes]:
        """Make the runs, each in full or not at all, and return the contents of their proof files. Raises OSError and
        ResourceError; some of the runs may be there then."""
        contents = []
        for each in proven:
            files = common.files(each)
            self._runs.add(each.id, files)
            contents.append(files[PROOF_FILE])
        return contents

    def start(self) -> None:
        """Begin what takes time, without waiting for it: here nothing does."""

    def close(self) -> None:
        """End it, for good."""


@dataclass(frozen=True)
class WriterSpec:
    """A process to be that writes the runs of the service in a folder."""

    folder: Path

    def served(self) -> Writer:
        folder = Folder.open_ours(self.folder)
        lock = take_lock(folder, LOCK)
        return Writer(folder.folder(RUNS), lock)


class WriterBeside(Writer):
    """Has a process write, which is started again after its death."""

    def __init__(self, folder: Path) -> None:
        self._process = HostProcess("writer", WriterSpec(folder), Ungoverned())

    def start(self) -> None:
        # What fails here fails again, and is told, when it is needed.
        in_background(self._serve, "distprove-start")

    def _serve(self) -> None:
        """Start the process, unless it serves. Raises ResourceError."""
        try:
            self._process.start()
        except (WorkerDied, DistproveError, OSError) as error:
            raise ResourceError(f"the runs could not be written: {error}") from None

    def add(self, common: Common, proven: list[Proven]) -> list[bytes]:
        self._serve()
        try:
            return self._process.call(Writer.add, common, proven)
        except WorkerDied as error:
            raise ResourceError(f"the runs could not be written: {error}") from None

    def close(self) -> None:
        self._process.end()


def await_writer(folder: Folder) -> None:
    """Wait until the writer of an earlier service has ended. Raises InUse."""
    until = time.monotonic() + patience.SERVICE_WRITER
    while True:
        try:
            take_lock(folder, LOCK).close()
        except InUse:
            if time.monotonic() > until:
                raise
            continue
        return
