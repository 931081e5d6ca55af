"""A proving key that several provers of a process hold on one backend: it is loaded once, and stays while one holds
it.

Jobs under different keys may end in a Groth16 proof under the same one, such as the wraps of jobs with other inputs.
Each has provers of its own, and the Groth16 key takes gigabytes. Keys are told apart by a sample of the file's content
(`distprove.formats.sampled`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from distprove.formats.sampled import sample
from distprove.groth16.binfile import Bytes
from distprove.groth16.resident import Loading, ReadKey, ResidentKey, loaded_whole, loading
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.errors import OutOfMemory
from kernels.interface.backend import Backend

SHARE = 4
"""A key that is loaded ahead, with the precomputed multiples of its points and a proof beside it, takes at most
1 / SHARE of the device's memory: the partitions that are proven meanwhile want the rest."""

_HELD: dict[tuple[int, bytes], SharedKey] = {}
"""The keys that are held, by backend and sample."""
_LOCK = threading.Lock()


class SharedKey:
    """A key's file, and the key on a backend once it is loaded. Make it by `held`, and release it once.

    `prepare` is for any thread. Everything else uses the backend, and is called by whoever has it alone.
    """

    def __init__(self, place: tuple[int, bytes], zkey: ZKey, backend: Backend) -> None:
        self.zkey = zkey
        self._place = place
        self._backend = backend
        self._holders = 0
        self._read: ReadKey | None = None
        self._pieces: Loading | None = None
        self._loaded: ResidentKey | None = None
        self._tried = False
        """Whether it was loaded ahead, with success or not."""
        self._preparing = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of the backend's memory that the loaded key takes."""
        return 0 if self._loaded is None else self._loaded.nbytes

    def prepare(self) -> None:
        """Read the key on the host, unless it is loaded. Raises InvalidKey."""
        with self._preparing:
            if self._loaded is None and self._read is None:
                self._read = ReadKey.of(self.zkey, self._backend)

    def load_more(self) -> bool:
        """Load a piece of the key, which is prepared; whether there is more. A key for which there is no room is left
        to `resident`."""
        if self._loaded is not None or (self._tried and self._pieces is None):
            return False
        if self._pieces is None:
            self._tried = True
            self._backend.prepare(self.zkey.curve)
            budget = self._backend.info().memory_budget
            free = self._backend.memory_free()
            self._pieces = self._begin(None if free is None else min(free, budget // SHARE))
        try:
            next(self._pieces)
        except StopIteration as done:
            self._keep(done.value)
            return False
        except OutOfMemory:
            self._pieces = None
            return False
        return True

    def resident(self) -> ResidentKey:
        """The loaded key. What is missing is loaded. Raises InvalidKey, OutOfMemory."""
        while self.load_more():
            pass
        if self._loaded is None:
            self._backend.prepare(self.zkey.curve)
            self._keep(loaded_whole(self._begin(None)))
        assert self._loaded is not None
        return self._loaded

    def drop(self) -> bool:
        """Free the loaded key; whether there was any. It is loaded again when it is needed."""
        had, self._loaded, self._pieces = self._loaded is not None or self._pieces is not None, None, None
        return had

    def release(self) -> None:
        """Let go of the key, which goes with its last holder."""
        with _LOCK:
            self._holders -= 1
            if self._holders <= 0 and _HELD.get(self._place) is self:
                del _HELD[self._place]
                self.drop()
                self._read = None

    def _begin(self, free: int | None) -> Loading:
        self.prepare()
        assert self._read is not None, "prepared"
        return loading(self._read, self._backend, free)

    def _keep(self, loaded: ResidentKey) -> None:
        self._loaded, self._pieces, self._read = loaded, None, None


def held(content: Bytes, name: str, backend: Backend) -> SharedKey:
    """Hold the key in a file's content on a backend. Errors call the file `name`. Raises FormatError, InvalidKey."""
    place = id(backend), sample(content.data)
    with _LOCK:
        shared = _HELD.get(place)
        if shared is None:
            shared = _HELD[place] = SharedKey(place, read_zkey(content, name=name, ceremony=False), backend)
        shared._holders += 1
        return shared


@contextmanager
def holding(content: Bytes, name: str, backend: Backend) -> Iterator[SharedKey]:
    """Hold a key, as `held` does, inside the block."""
    shared = held(content, name, backend)
    try:
        yield shared
    finally:
        shared.release()
