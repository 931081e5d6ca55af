"""Devices that jobs gave up, remembered by their machine until somebody clears them.

They are in `devices.json` in the user's folder for state, by the name of the machine and their UUID, because machines
may share a home folder. Nothing depends on the file: one that cannot be read, or that others could have written, is
told and not used.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from distprove.errors import DistproveError, FormatError, typed
from distprove.formats import jsontext
from distprove.formats.folder import Folder
from distprove.formats.shapes import NUMBER, fits
from distprove.formats.visible import bounded, visible
from kernels.host.private import NotPrivate, require_private

FILE, LOCK = "devices.json", "devices.lock"
FORMAT = {"format": "distprove.devices", "version": 1}
MAX_FILE = 1 << 20
MOST = 1000
"""Devices that are remembered, at most; those of long ago are forgotten first."""
CLEARED_BY = "distprove doctor --clear-devices"


@dataclass(frozen=True)
class SetAside:
    """A device that is not to be used."""

    host: str
    device: str
    """Its UUID."""
    reason: str
    time: float
    """When it was given up, in seconds since the epoch."""

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.time))
        reason = bounded(visible(self.reason), 200)
        return (
            f"{visible(self.device)} on {visible(self.host)} is not used since {when} UTC: {reason} "
            f"(`{CLEARED_BY}` there has it used again)"
        )


class Remembered(NamedTuple):
    """What is remembered of this machine's devices."""

    devices: dict[str, SetAside]
    """The devices that are not to be used, by UUID."""
    trouble: str = ""
    """Why that is not known, if it is not."""


def state_folder() -> Path:
    """This user's folder for what outlives a job."""
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state") / "distprove"


def remembered() -> Remembered:
    """The devices of this machine that are not to be used."""
    try:
        folder = state_folder()
        if not (folder / FILE).exists():
            return Remembered({})
        require_private(folder)
        with Folder.open_ours(folder) as opened:
            found = _read(opened)
    except (OSError, RuntimeError, NotPrivate, DistproveError) as error:
        return Remembered({}, f"which devices were given up on {platform.node()} is not known: {typed(error)}")
    return Remembered({each.device: each for each in found if each.host == platform.node()})


def remember(device: str, reason: str) -> str:
    """Have a device of this machine not used any more; why that could not be written, or "". A file that cannot be read
    is replaced."""
    new = SetAside(platform.node(), device, reason, time.time())
    return _change(lambda found: [*(each for each in found if (each.host, each.device) != (new.host, device)), new])


def clear() -> str:
    """Have all devices of this machine used again; why that could not be written, or ""."""
    return _change(lambda found: [each for each in found if each.host != platform.node()])


def _change(change: Callable[[list[SetAside]], list[SetAside]]) -> str:
    try:
        folder = state_folder()
        require_private(folder, create=True)
        with Folder.open_ours(folder) as opened, open(opened.open_in_place(LOCK), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                found = _read(opened) if opened.has(FILE) else []
            except DistproveError:
                found = []
            devices = [asdict(each) for each in change(found)[-MOST:]]
            opened.write(FILE, json.dumps({**FORMAT, "devices": devices}, indent=1).encode())
    except (OSError, RuntimeError, NotPrivate, DistproveError) as error:
        return f"which devices were given up could not be written: {typed(error)}"
    return ""


def _read(folder: Folder) -> list[SetAside]:
    """All devices in the file. Raises InputError or FormatError."""
    value = jsontext.read_in(folder, FILE, MAX_FILE)
    shape = {"host": str, "device": str, "reason": str, "time": NUMBER}
    if not fits(value, {"devices": [shape]}) or any(value.get(key) != told for key, told in FORMAT.items()):
        raise FormatError(f"{folder.path / FILE}: not a list of devices")
    return [SetAside(**{key: each[key] for key in shape}) for each in value["devices"]]
