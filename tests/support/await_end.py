"""Waits for a job of a service in this process, which tells of its end to listeners alone."""

from __future__ import annotations

import time

from cluster.service.service import Service
from cluster.service.views import JobView


def await_end(service: Service, id: str, timeout: float) -> JobView:
    """What is known of a job once it is over, or after `timeout` seconds. Raises NoSuchJob."""
    late = time.monotonic() + timeout
    while not (view := service.job(id)).state.final and time.monotonic() < late:
        time.sleep(0.01)
    return view
