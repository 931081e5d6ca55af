"""Finds a service of this user: its folder, its contact, and whether it is alive.

lock            held while the service runs (cluster/record/run.py)
contact.json    how it is reached (`Contact`), written when it is ready
options.json    the options of `up` that it was started with (distprove/cli/up.py)
tokens          who may speak to it (cluster/service/http/access.py)
service.log     what it says, when it runs detached
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from distprove.errors import InputError, ServiceGone, UsageError, typed
from distprove.formats import jsontext
from distprove.formats.folder import Folder
from distprove.formats.plain_data import read
from distprove.host.set_aside import state_folder
from kernels.host.private import NotPrivate, require_private

CONTACT = "contact.json"
LOG = "service.log"
MAX_FILE = 1 << 16
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
VARIABLE = "DISTPROVE_SERVICE"
"""Environment variable with the URL or the folder of the service to ask."""
TOKEN_VARIABLE = "DISTPROVE_SERVICE_TOKEN_FILE"
CA_VARIABLE = "DISTPROVE_SERVICE_CA_FILE"


@dataclass(frozen=True)
class Contact:
    """How a service is reached."""

    url: str
    token_file: str
    """A file with a line NAME TOKEN, which nobody but this user can read."""
    ca_file: str | None = None
    """Certificates that TLS is checked with, or None for the system's."""
    fingerprint: str | None = None
    """SHA-256 of the service's own certificate, in place of that check: names in it need not be those of the URL."""
    pid: int | None = None
    folder: str | None = None
    """The service's folder, on this machine."""


def default_folder() -> Path:
    """The folder of this user's service."""
    return state_folder() / "service"


def make_folder(folder: Path) -> None:
    """Make a service's folder, unless it is there. Raises UsageError where others could change it, or replace it."""
    try:
        require_private(folder, create=True)
    except NotPrivate as error:
        raise UsageError(f"{folder} cannot be a service's folder, which is private: {error}") from None
    except OSError as error:
        raise typed(OSError(error.errno, error.strerror), folder, UsageError) from None
    with Folder.open_ours(folder) as opened:
        opened.close_to_others()


def fingerprint_of(certificate: Path) -> str:
    """The SHA-256 of the first certificate in a PEM file."""
    first = certificate.read_text(encoding="ascii").partition(_END)[0] + _END
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first[first.index(_BEGIN) :])).hexdigest()


def write_contact(folder: Path, contact: Contact) -> None:
    """Write the contact of a service into its folder."""
    with Folder.open_ours(folder) as opened:
        opened.write(CONTACT, json.dumps(asdict(contact), indent=2).encode())


def remove_contact(folder: Path, pid: int | None = None) -> None:
    """Remove the contact of the service with this process id, or of any service."""
    with Folder.open_ours(folder) as opened:
        if pid is None or (opened.has(CONTACT) and _pid(jsontext.read_in(opened, CONTACT, MAX_FILE)) == str(pid)):
            opened.remove(CONTACT)


def holder_of(folder: Path) -> str | None:
    """The holder of the lock of a service's folder, "process N on HOST", or None where no service runs."""
    from cluster.record.run import LOCK, abandoned_by

    if not folder.is_dir():
        return None
    with Folder.open(folder) as opened:
        if not opened.has(LOCK) or abandoned_by(opened) is not None:
            return None
        return opened.read(LOCK, MAX_FILE).decode(errors="replace")


def contact_in(folder: Path) -> Contact:
    """The contact of the service in the folder. Raises InputError, and ServiceGone, which tells whether one ran."""
    try:
        require_private(folder)
        with Folder.open(folder) as opened:
            found = jsontext.read_in(opened, CONTACT, MAX_FILE) if opened.has(CONTACT) else None
    except FileNotFoundError:
        found = None
    except NotPrivate as error:
        raise InputError(f"{folder} is not used as a service's folder: {error}") from None
    except OSError as error:
        raise typed(OSError(error.errno, error.strerror), folder) from None
    holder = holder_of(folder)
    if holder is not None:
        # One that was just started holds the lock before it has replaced what a dead one said, and somebody else may
        # listen where that was.
        if found is None or not holder.startswith(f"process {_pid(found)} "):
            raise ServiceGone(f"the service in {folder} is starting or ending; try again")
        return read(Contact, found, f"{folder / CONTACT}", strict=False)
    if found is None:
        raise ServiceGone(f"no service runs here, in {folder}; `distprove up` starts one")
    raise ServiceGone(
        f"the service in {folder} has died, or was killed (process {_pid(found)}); `distprove up` starts it again, and "
        "its jobs go on"
    )


def _pid(found: Any) -> str:
    return str(found.get("pid")) if isinstance(found, dict) else "unknown"


def local_folder() -> Path | None:
    """The folder of the service on this machine that the environment names, by default this user's own, or None where
    it names a URL."""
    given = os.environ.get(VARIABLE, "")
    if given.startswith(("http://", "https://")):
        return None
    return Path(given) if given else default_folder()


def find(service: str | Path | None = None, token_file: Path | None = None, ca_file: Path | None = None) -> Contact:
    """The service to ask: at a URL or in a folder, as given or as the environment says; by default this user's own.

    Raises UsageError, InputError, ServiceGone.
    """
    service = os.fspath(service or os.environ.get(VARIABLE) or "")
    if re.fullmatch(r"[^/]+:\d+", service) and not Path(service).exists():
        raise UsageError(f"{service!r} is no folder, and a URL has http:// or https:// before it")
    if not service.startswith(("http://", "https://")):
        return contact_in(Path(service) if service else default_folder())
    token = token_file or os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise UsageError(f"a service at a URL asks for a token: name its file, --token-file or {TOKEN_VARIABLE}")
    ca = ca_file or os.environ.get(CA_VARIABLE)
    return Contact(service, str(token), str(ca) if ca else None)
