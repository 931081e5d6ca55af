"""Leases over Ray, of a governor that may end while a job goes on."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from actors.grants import Grant


def test_a_governor_that_is_gone_is_looked_for_until_a_driver_has_made_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a node that was cut off and is there again."""
    import ray
    from ray.exceptions import ActorDiedError

    from actors.leases import Governed

    def governor(answer: Any) -> Any:
        def asked(*_: object, **__: object) -> Any:
            future: Future[Any] = Future()
            future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
            return SimpleNamespace(future=lambda: future)

        return SimpleNamespace(acquire=SimpleNamespace(remote=asked), threads_wanted=SimpleNamespace(remote=asked))

    dead = governor(ActorDiedError())
    found: list[Any] = [dead, dead, ValueError("no such name"), governor((7, 2))]

    def get_actor(name: str, namespace: str) -> Any:
        one = found.pop(0)
        if isinstance(one, ValueError):
            raise one
        return one

    monkeypatch.setattr(ray, "get_actor", get_actor)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "a"))
    monkeypatch.setattr("actors.patience.GOVERNOR_GLANCE", 0.0)
    governed = Governed()
    assert not governed.threads_wanted(), "one that is gone wants none"
    assert governed.acquire(threads=2) == Grant(7, 2)
    assert found == []


def test_where_nobody_makes_another_governor_everything_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from actors.leases import Governed

    def no_actor(name: str, namespace: str) -> Any:
        raise ValueError(name)

    monkeypatch.setattr(ray, "get_actor", no_actor)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "a"))
    assert Governed().acquire(threads=2) == Grant(0, 2)


def test_each_governor_that_is_found_is_told_which_driver_a_process_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    import ray
    from ray.exceptions import ActorDiedError

    from actors.leases import Governed

    told: list[tuple[int, str]] = []

    def governor(answer: Any) -> Any:
        future: Future[Any] = Future()
        future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
        serves = SimpleNamespace(remote=lambda *what: told.append(what))
        return SimpleNamespace(
            acquire=SimpleNamespace(remote=lambda *_, **__: SimpleNamespace(future=lambda: future)), serves=serves
        )

    def get_actor(name: str, namespace: str) -> Any:
        one = found.pop(0)
        if one is None:
            raise RuntimeError("the head does not answer")
        return one

    found = [None, governor(ActorDiedError()), governor((7, 2))]
    monkeypatch.setattr(ray, "get_actor", get_actor)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "a"))
    monkeypatch.setattr("actors.patience.GOVERNOR_GLANCE", 0.0)
    governed = Governed(serves="01-one")
    governed.find()
    assert told == []
    governed.find()
    assert told == [(os.getpid(), "01-one")]
    assert governed.acquire(threads=2) == Grant(7, 2)
    assert told == [(os.getpid(), "01-one")] * 2
