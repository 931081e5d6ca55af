"""Places of inputs: where a worker finds one, and what tells it whether the file there is the driver's.

A place travels with the order to prove, and nowhere else. It holds the file's path, its size, and a digest of its
content under a key that is drawn for each plan: without the key, which lives as long as the plan, the digest confirms
no guess of the input. A file of up to `whole` bytes is digested whole. Of a longer one its beginning, its end and some
blocks between them are, at positions that follow from the key and that nobody knows beforehand. So another file that
differs in few places may be taken for the driver's. Of a witness the values that its proof makes public stand at the
beginning, as far as `HEAD` reaches: what is proven is then what the driver's file says, or nothing that verifies.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import stat
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

from distprove.errors import InputError, typed
from distprove.formats.files import open_given, opens_all
from distprove.formats.remote import drop, fetch, kept_at, shown
from distprove.formats.sampled import BLOCK, BLOCKS, HEAD, digest
from distprove.groth16.binfile import Bytes, map_file
from distprove.options import InputFile
from distprove.system import Partition
from kernels.host.units import count_of

WHOLE_WITNESS = HEAD + BLOCK * BLOCKS
"""Bytes up to which a witness is digested whole: reading it takes little longer than that, and so does proving it."""
WHOLE_INPUT = 4 << 20
"""Bytes up to which a circuit's input is digested whole: to compute the witness takes many times as long."""
READERS, SLOW = 8, 1e-3
"""Threads that read inputs where each takes longer than so many seconds, as over a network, whose delay it is."""


def places_of(sources: Sequence[InputFile], whole: int) -> list[dict[str, Any]]:
    """The places of inputs, whose files are as they are now. Raises InputError for one that is not there."""
    key = secrets.token_bytes(16) if sources else b""

    def places(of: Sequence[InputFile]) -> list[dict[str, Any]]:
        return [_place(source, key, whole) for source in of]

    began = time.perf_counter()
    first, rest = places(sources[:READERS]), sources[READERS:]
    if time.perf_counter() - began < READERS * SLOW:
        return first + places(rest)
    slices = [rest[start : start + 64] for start in range(0, len(rest), 64)]
    with ThreadPoolExecutor(READERS, "distprove-inputs") as readers:
        contexts = [copy_context() for _ in slices]  # of this thread: which files may be opened
        found = readers.map(lambda context, some: context.run(places, some), contexts, slices)
        return first + [place for some in found for place in some]


def partitions_at(
    system: str, key_digest: bytes, sources: Sequence[InputFile], places: Sequence[dict[str, Any]]
) -> list[Partition]:
    """The partitions of a job, one for each input. A digest is that of system, key, index and name. It leaves out the
    input, whose hash would let anyone test guesses of it."""
    partitions = []
    for index, (source, place) in enumerate(zip(sources, places, strict=True)):
        name = source.name.encode()
        numbers = index.to_bytes(8, "little") + len(name).to_bytes(8, "little")
        stated = f"distprove {system} partition 1\0".encode() + key_digest + numbers + name
        partitions.append(Partition(index, source.name, hashlib.sha256(stated).digest(), place))
    return partitions


def content_at(place: dict[str, Any]) -> tuple[Bytes, str]:
    """The content of an input's file on this node, which is mapped, and its name for errors. Raises InputError for one
    that is not the driver's."""
    url = place.get("url")
    if url is None:
        return _content(Path(place["path"]), place, place["path"])
    kept = kept_at(url, place["version"])
    if kept.exists():
        with suppress(InputError):
            return _content(kept, place, shown(url))
        drop(url, place["version"])  # of a server that tells no versions, or the wrong one: it is fetched once more
    return _content(fetch(url, version=place["version"]).path, place, shown(url))


def _content(path: Path, place: dict[str, Any], named: str) -> tuple[Bytes, str]:
    where = f"{named} on {platform.node()}"
    try:
        size = path.stat().st_size
    except OSError as error:
        raise typed(OSError(error.errno, error.strerror), where) from None
    if size != place["size"]:
        raise InputError(f"{where}: {count_of(size, 'byte')}, and {place['size']} where the driver is")
    content = map_file(path)
    known = place["digest"]
    if known is not None and known != digest(
        place["key"], len(content), place["whole"], lambda start, count: content[start : start + count].data
    ):
        raise InputError(f"{where}: another content than where the driver is, and as long")
    return content, str(path)


def _place(source: InputFile, key: bytes, whole: int) -> dict[str, Any]:
    """The place of one input; without a digest where the driver may not read the file, or it is none: whoever is to
    read it then says what is wrong. Where not all files may be opened such a place is refused: another file could be
    there by then, and nothing would tell it from this one."""
    if source.content is not None:
        return {"content": source.content}
    fetched = {} if source.url is None else {"url": source.url, "version": fetch(source.url).version}
    file = kept_at(**fetched) if fetched else source.path
    try:
        size, found = file.stat().st_size, None
        try:
            descriptor = open_given(file)
        except PermissionError:
            descriptor = None
        if descriptor is not None:
            try:
                facts = os.fstat(descriptor)
                if stat.S_ISREG(facts.st_mode):
                    size = facts.st_size
                    found = digest(key, size, whole, lambda start, count: os.pread(descriptor, count, start))
            finally:
                os.close(descriptor)
    except OSError as error:
        raise typed(error, file) from None
    if found is None and not opens_all():
        raise InputError(f"{file}: not a regular file that the driver may read")
    return {"path": str(file), "size": size, "key": key, "whole": whole, "digest": found, **fetched}
