"""Who may speak to a service, and how often: tokens by name, rates, and the names of a loopback address."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
import time
from collections import OrderedDict
from pathlib import Path

from actors import patience
from distprove.errors import AccessDenied, InputError, QueueFull, UsageError, typed

TOKENS = "tokens"
"""The file of tokens in a service's folder: a name and a token on each line."""
OWNER = "owner"
"""The name of the token that is made with the file."""
LEAST = 32
"""Fewest characters of a token. A new one has 43, which hold 256 random bits."""
MAX_FILE = 1 << 16
_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})\s+([A-Za-z0-9._~+/=-]+)\Z")
_BARE = re.compile(rf"[A-Za-z0-9._~+/=-]{{{LEAST},}}\Z")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
ASKERS = 4096
"""Most clients remembered. The one that asked longest ago is forgotten first."""


def make_tokens(path: Path) -> None:
    """Make the file, with one token, unless it exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{OWNER} {secrets.token_urlsafe(32)}\n")


def read_tokens(path: Path, *, bare: bool = False) -> dict[str, str]:
    """Tokens by their names; with `bare` a file may also hold a token alone, as those do that Prometheus reads. Raises
    InputError unless the file is this user's, and nobody else's to read. No message holds a line of it."""
    try:
        with open(os.open(path, _READ), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                raise InputError(f"{path}: tokens are kept in a file of your own that nobody else can read (mode 0600)")
            text = file.read(MAX_FILE + 1)
    except OSError as error:
        raise typed(error, path) from None
    if len(text) > MAX_FILE:
        raise InputError(f"{path}: more than {MAX_FILE} bytes")
    if bare and _BARE.match(stripped := text.decode("ascii", "replace").strip()):
        return {"": stripped}
    found: dict[str, str] = {}
    for number, line in enumerate(text.decode("ascii", "replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.match(line.strip())
        if match is None or len(match[2]) < LEAST or match[1] in found:
            raise InputError(f"{path}: line {number} must be a new name and a token of at least {LEAST} characters")
        found[match[1]] = match[2]
    if not found:
        raise InputError(f"{path}: no token")
    return found


def read_token(path: Path) -> str:
    """The first token of a file, or the token that it holds alone: what a client shows."""
    return next(iter(read_tokens(path, bare=True).values()))


class Tokens:
    """The tokens that a service accepts. A file that is changed counts within a second; one that has become unusable
    leaves nobody in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts = self._stat()  # first: what changes the file from now on is seen
        self._digests = self._read()
        self._due = time.monotonic() + patience.TOKENS_LOOK

    def name_of(self, authorization: str | None) -> str:
        """The name of the token in a header `Authorization: Bearer TOKEN`. Raises AccessDenied.

        It compares digests, each in constant time, and always all of them.
        """
        self._follow()
        scheme, _, token = (authorization or "").partition(" ")
        shown = _digest(token.strip() if scheme.lower() == "bearer" else "")
        names = [name for name, digest in self._digests.items() if hmac.compare_digest(digest, shown)]
        if not names:
            asks = "asks for a token: Authorization: Bearer TOKEN"
            raise AccessDenied(f"this service {asks if authorization is None else 'does not know this token'}")
        return names[0]

    def _follow(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + patience.TOKENS_LOOK
        facts = self._stat()
        if facts != self._facts:
            self._facts, self._digests = facts, {}
            try:
                self._digests = self._read()
            except InputError as error:
                raise AccessDenied("the service's file of tokens cannot be used") from error

    def _read(self) -> dict[str, bytes]:
        return {name: _digest(token) for name, token in read_tokens(self._path).items()}

    def _stat(self) -> tuple[int, ...] | None:
        try:
            facts = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return None
        return facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class TooFast(QueueFull):
    """A client asks more often than it may."""


class Rates:
    """A token bucket for each client: `rate` requests a second on average, `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The requests left to each client, and the time of that count."""

    def take(self, who: str) -> None:
        """Count a request. Raises TooFast, with the time until the next one is let through."""
        now = time.monotonic()
        left, then = self._buckets.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        allowed = left >= 1
        self._buckets[who] = (left - 1 if allowed else left, now)
        if len(self._buckets) > ASKERS:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooFast("too many requests; ask again later", (1 - left) / self._rate)

    def charge(self, who: str, more: int) -> None:
        """Count a request that was let through as so many more. The next one waits until these are paid for."""
        if more > 0 and who in self._buckets:
            left, then = self._buckets[who]
            self._buckets[who] = (left - more, then)


def peer_of(address: str | None) -> str:
    """The peer whose requests without a token count together: an IPv4 address, or a network of IPv6 (/64)."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a name or address to listen on."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_protected(host: str, *, tls: bool, plain_allowed: bool) -> None:
    """Raise UsageError where tokens and jobs would travel over a network in plain text."""
    if not (is_loopback(host) or tls or plain_allowed):
        raise UsageError(
            f"{host} is reached over a network, where others read tokens and jobs that are not encrypted: give "
            "--tls-cert and --tls-key, or --plain-http where something in front of the service encrypts"
        )


def is_local_name(host: str | None) -> bool:
    """Whether a `Host` header means this machine. A page of somebody else's, whose name was made to resolve to a
    loopback address, has its own name there (DNS rebinding)."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?", host or "")
    return match is not None and is_loopback(match[1].strip("[]").lower())
