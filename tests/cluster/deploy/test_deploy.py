"""The example cluster follows Ray's own schema, and never opens a cluster without a token."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[3] / "cluster" / "deploy"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    spec = importlib.util.find_spec("ray")  # located, not imported: that takes seconds
    assert spec is not None
    assert spec.origin is not None
    loaded: dict[str, Any] = json.loads((Path(spec.origin).parent / "autoscaler" / "ray-schema.json").read_text())
    return loaded


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_follow_the_schema(path: Path, schema: dict[str, Any]) -> None:
    config = yaml.safe_load(path.read_text())
    jsonschema.validate(config, schema)
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        starts = [command for command in config[key] if "ray start" in command]
        assert starts
        assert all("RAY_AUTH_MODE=token" in command for command in starts)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**config, "max_wrokers": 1}, schema)
