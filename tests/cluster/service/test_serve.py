"""How a service's process ends."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from cluster.service import serve as serve_module
from cluster.service.contact import CONTACT
from cluster.service.http.access import TOKENS
from cluster.service.http.server import Options
from cluster.service.requests import Limits
from distprove.settings import ExecutorSettings
from tests.support.fake_service import FakeService


class Stuck(FakeService):
    """A service with a job that does not stop."""

    def __init__(self, folder: Path, *_settings: object, **_more: object) -> None:
        super().__init__(folder)
        self.closing = threading.Event()

    def start(self) -> None:
        """Nothing has to start."""

    def close(self, *, drain: bool) -> None:
        first = not self.closing.is_set()
        self.closing.set()
        if first:
            threading.Event().wait(60)


def test_no_job_holds_up_the_end_of_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest of 2^35 cycles held up `down --now`, and a first SIGTERM, for as long as it was run."""

    def ended(code: int) -> None:
        assert not (tmp_path / "service" / CONTACT).exists()
        raise SystemExit(code)

    monkeypatch.setattr(serve_module, "Service", Stuck)
    monkeypatch.setattr("actors.patience.SERVICE_ENDS", 0.3)
    monkeypatch.setattr(os, "_exit", ended)
    folder = tmp_path / "service"
    settings = ExecutorSettings(backend="tests.support.toy_system:toy_backend")  # with code of one's own nothing forks
    with pytest.raises(SystemExit) as done:
        serve_module.serve(
            folder, settings, Limits(), Options(folder / TOKENS), lambda contact: os.kill(os.getpid(), signal.SIGTERM)
        )
    assert done.value.code == 0
