"""Checks that nobody but this user and root can change a folder.

Owner and mode of the folder alone do not tell: whoever may write a folder above it can replace it. So the whole path
from the root is walked, and each component is opened relative to the one before, never by its path again.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
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

    def link(facts: os.stat_result, inside: os.stat_result, shown: str) -> None:
        if facts.st_uid not in (os.geteuid(), 0):
            raise NotPrivate(f"{shown} is a symbolic link of user {facts.st_uid}")

    def each(facts: os.stat_result, shown: str, last: bool) -> None:
        _check(facts, shown, sticky or not last)

    os.close(walk(folder, link, each, create=0o700 if create else None))


def require_no_link_of_others(facts: os.stat_result, inside: os.stat_result, shown: str) -> None:
    """Raise NotPrivate for a link of another user in a folder where all may write: for `walk` to folders that others
    may share. Linux itself follows no such link where `fs.protected_symlinks` is set and the folder is sticky."""
    if inside.st_mode & stat.S_IWOTH and facts.st_uid not in (os.geteuid(), 0):
        raise NotPrivate(f"{shown} is a symbolic link of user {facts.st_uid}, in a folder that all may write")


def walk(
    folder: Path,
    link: Callable[[os.stat_result, os.stat_result, str], None],
    each: Callable[[os.stat_result, str, bool], None] | None = None,
    *,
    create: int | None = None,
) -> int:
    """A descriptor of `folder`, for paths relative to it, each component opened from the one before.

    `link` looks at every symbolic link on the way before it is followed: at its facts, those of the folder that it lies
    in, and its path; `each` at every folder: its facts, its path, whether it is the last. `create` makes what is
    missing, with this mode. Raises what they raise, NotPrivate for too many links, OSError.
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
                    if create is None:
                        raise
                    with suppress(FileExistsError):  # made by somebody else just now, and looked at like any other
                        os.mkdir(name, create, dir_fd=at)
                    facts = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISLNK(facts.st_mode):
                    links += 1
                    link(facts, os.fstat(at), shown)
                    if links > _MAX_LINKS:
                        raise NotPrivate(f"{shown} is one of too many symbolic links")
                    way.extend(reversed(Path(os.readlink(name, dir_fd=at)).parts))
                    shown = os.path.dirname(shown)
                    continue
                before, at = at, os.open(name, _STEP, dir_fd=at)
                os.close(before)
            if each is not None:
                each(os.fstat(at), shown, not way)
    except BaseException:
        if at >= 0:
            os.close(at)
        raise
    return at


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
