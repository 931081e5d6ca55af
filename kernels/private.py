"""Checks that nobody but this user and root can change a folder.

Owner and mode of the folder alone do not tell: whoever may write a folder above it can replace it. So the whole path
from the root is walked, and each component is opened relative to the one before, never by its path again.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MAX_LINKS = 40
"""Most symbolic links on one path, as in Linux."""
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


class NotPrivate(Exception):
    """Somebody else can change a folder or a component of its path. The message names the component and says why."""


def is_ours(facts: os.stat_result) -> bool:
    """Whether only this user or root can write a file with the status `facts`."""
    return facts.st_uid in (os.geteuid(), 0) and not facts.st_mode & _OTHERS_MAY_WRITE


def require_private(folder: Path, *, create: bool = False, sticky: bool = False) -> None:
    """Raise NotPrivate unless nobody but this user and root can change or replace `folder`.

    A component that all may write, such as /tmp, is accepted if it is sticky: only the owner of an entry can move it,
    and that owner is checked next. `sticky` accepts such a folder as the last component too. A symbolic link must
    belong to this user or root, and its target is walked as well. `create` makes missing folders with mode 0700.
    Raises OSError as well.
    """
    way = list(reversed(folder.absolute().parts))
    at, shown, links = -1, "", 0
    try:
        while way:
            name = way.pop()
            if os.path.isabs(name):  # the start, or the target of a link
                shown, before = name, at
                at = os.open(name, _STEP)
                if before >= 0:
                    os.close(before)
            else:
                shown = os.path.join(shown, name)
                try:
                    facts = os.stat(name, dir_fd=at, follow_symlinks=False)
                except FileNotFoundError:
                    if not create:
                        raise
                    os.mkdir(name, 0o700, dir_fd=at)
                    facts = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISLNK(facts.st_mode):
                    links += 1
                    if facts.st_uid not in (os.geteuid(), 0) or links > _MAX_LINKS:
                        raise NotPrivate(f"{shown} is a symbolic link of user {facts.st_uid}, or one of too many")
                    way.extend(reversed(Path(os.readlink(name, dir_fd=at)).parts))
                    shown = os.path.dirname(shown)
                    continue
                before, at = at, os.open(name, _STEP, dir_fd=at)
                os.close(before)
            _check(os.fstat(at), shown, sticky or bool(way))
    finally:
        if at >= 0:
            os.close(at)


def temporary_root(longest: int | None = None) -> Path:
    """Return the folder for temporary files, TMPDIR's or the system's, in which others cannot replace our files.

    `longest` bounds the length of its path in bytes. Raises NotPrivate if there is no such folder.
    """
    reasons = []
    for candidate in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        if longest is not None and len(os.fsencode(candidate)) > longest:
            reasons.append(f"{candidate} has more than {longest} bytes")
            continue
        try:
            require_private(Path(candidate), sticky=True)
        except (NotPrivate, OSError) as error:
            reasons.append(str(error))
        else:
            return Path(candidate)
    raise NotPrivate(f"no folder for temporary files is safe from others: {'; '.join(reasons)}")


def _check(facts: os.stat_result, shown: str, sticky: bool) -> None:
    if facts.st_uid not in (os.geteuid(), 0):
        raise NotPrivate(f"{shown} belongs to user {facts.st_uid}")
    if facts.st_mode & _OTHERS_MAY_WRITE and not (sticky and facts.st_mode & stat.S_ISVTX):
        raise NotPrivate(f"{shown} can be written by others (mode {stat.S_IMODE(facts.st_mode):04o})")
