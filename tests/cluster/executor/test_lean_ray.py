"""A Ray of head and raylet alone: what is started in place of the rest, and that nothing of that stays."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import _raylet
from ray._private import services
from ray._private.node import Node

from cluster.executor.connection import connect
from cluster.executor.lean_ray import lean_ray
from distprove.errors import ClusterError
from distprove.settings import ExecutorSettings

NODE = "ab" * 28
REPLACED = ("start_ray_process", "start_api_server")


def replaced() -> list[Any]:
    return [*(getattr(services, name) for name in REPLACED), Node.start_monitor, Node.start_log_monitor]


def test_a_raylet_finds_the_ports_of_agents_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[tuple[list[str], str]] = []
    monkeypatch.setattr(services, "start_ray_process", lambda command, kind, **_: started.append((command, kind)))
    kept = ["raylet", f"--session_dir={tmp_path}", f"--node_id={NODE}", "--python_worker_command=python --x=y"]
    agents = ["--dashboard_agent_command=python agent.py --a=b", "--runtime_env_agent_command=python main.py"]
    with lean_ray():
        services.start_ray_process([*kept, *agents, "--num_prestart_python_workers=16"], "raylet", fate_share=True)
        services.start_ray_process(["gcs_server", "--a=b"], "gcs_server", fate_share=True)
    names = [word.partition("=")[0] for word in agents]
    assert started == [
        ([*kept, *(f"{name}=cat" for name in names), "--num_prestart_python_workers=0"], "raylet"),
        (["gcs_server", "--a=b"], "gcs_server"),
    ]
    assert sorted((file.name, file.read_text()) for file in tmp_path.iterdir()) == [
        (f"{name}_port_{NODE}", "-1")
        for name in ("dashboard_agent_listen", "metrics_agent", "metrics_export", "runtime_env_agent")
    ]


def test_what_is_replaced_comes_back() -> None:
    before = replaced()
    with suppress(KeyError), lean_ray():
        assert all(new is not old for new, old in zip(replaced(), before, strict=True))
        raise KeyError
    assert replaced() == before


def test_another_ray_starts_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_raylet, "persist_port")
    before = replaced()
    with lean_ray():
        assert replaced() == before


def test_one_that_does_not_come_up_is_started_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    before, lean = replaced(), []

    def init(**_: Any) -> None:
        lean.append(replaced() != before)
        raise RuntimeError("The current node timed out during startup." if len(lean) < 3 else "something else")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ClusterError, match="something else"), connect(ExecutorSettings(local=False), 0):
        pass
    assert lean == [True, False, False]
