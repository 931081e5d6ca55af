"""Keys that a service loads before a job needs them, and gives up on request: the keys of jobs to come.

A key is named by the files of a job's key and the circuit that it is of. Its identity follows from these as for a job,
so that a job of the same key finds it loaded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from cluster.scheduler.ahead import LoadingAhead
from cluster.scheduler.loop import Scheduler
from cluster.scheduler.told import KeyView
from cluster.scheduler.views import identity
from cluster.service.requests import Limits, files_stay_allowed, real_base, require_allowed
from cluster.service.views import KeyAway, KeyReady, KeyRequest
from distprove.errors import InUse, QueueFull, UsageError
from distprove.formats.owncode import names_code
from distprove.registry import SYSTEMS, entry_of
from distprove.system import ProofSystem

MOST = 16
"""Keys that are loaded ahead at a time."""


class KeysAhead:
    """Loads keys without jobs, and puts them away. Any thread may call."""

    def __init__(self, scheduler: Callable[[], Scheduler], limits: Limits, folder: Path) -> None:
        """`folder` is the service's own, in which no key may lie."""
        self._scheduler = scheduler
        self._limits = limits
        self._folder = folder
        self._lock = threading.Lock()
        self._loading: dict[str, LoadingAhead] = {}

    def load(self, request: KeyRequest) -> tuple[KeyReady, Future[None] | None]:
        """Have a key loaded, unless it is there or being loaded. Returns what is known of it, and what is done when it
        is loaded, or has the reason why not; None for one that is loaded.

        Raises UsageError and InputError for what names no key, QueueFull while MOST others are loaded.
        """
        system, now = self._system(request), time.monotonic()
        id = identity(system)
        with self._lock:
            self._loading = {each: one for each, one in self._loading.items() if not one.done.done()}
            under_way = self._loading.get(id)
            if under_way is None:
                view = self._view(id)
                if view is not None and view.workers and view.checked and not view.loading:
                    return KeyReady(id, True, True, 0.0, view.bytes), None
                if len(self._loading) >= MOST:
                    raise QueueFull(f"{MOST} keys are being loaded; ask again later", 1.0)
                under_way = self._loading[id] = self._scheduler().load_ahead(id, system)
        return KeyReady(id, False, False, now - under_way.began), under_way.done

    def put_away(self, request: KeyRequest) -> KeyAway:
        """Give back the memory of a key that no job uses. Raises InUse for one that a job uses or that is being loaded,
        UsageError and InputError for what names no key."""
        id = identity(self._system(request))
        view = self._view(id)
        if not self._scheduler().put_away(id):
            raise InUse("the key is in use: a job needs it, or it is being loaded")
        return KeyAway(id, view is not None, 0 if view is None else view.bytes)

    def _view(self, id: str) -> KeyView | None:
        views = self._scheduler().keys()
        return next((view for view in views if view.id == id), None)

    def _system(self, request: KeyRequest) -> ProofSystem:
        """The system of a key without a job."""
        make = entry_of(request.system).of_key if request.system in SYSTEMS else None
        if make is None:
            known = [name for name in SYSTEMS if entry_of(name).of_key is not None]
            raise UsageError(f"keys are loaded ahead for jobs of {', '.join(known)}; others are with their first job")
        if request.circuit is not None and names_code(request.circuit):
            raise UsageError("the circuit of a key that is loaded ahead is one that ships with distprove")
        base = real_base(request.base)
        files = {name: base / text for name, text in request.files.items()}
        if any(".." in path.parts for path in files.values()):
            raise UsageError("the path of a key is named without `..`")
        require_allowed(list(files.values()), self._limits, self._folder)
        with files_stay_allowed(self._limits, self._folder):
            return make(files, request.circuit)
