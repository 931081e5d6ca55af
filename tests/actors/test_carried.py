"""Values on their way to an actor: they arrive as themselves, and bring the folder that their class is found in."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from actors.ray_actor import Carried


@pytest.fixture(autouse=True)
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])


def arrives(value: object) -> object:
    """What an actor gets whose Python knows nothing of the driver's folder."""
    data = pickle.dumps(Carried(value))
    here = str(Path.cwd())
    sys.path[:] = [path for path in sys.path if path != here]
    return pickle.loads(data)


def test_a_folder_of_the_driver_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "carried_class.py").write_text("class Mine:\n    held = 5\n")
    sys.path.insert(0, str(tmp_path))
    import carried_class

    mine = carried_class.Mine()
    monkeypatch.delitem(sys.modules, "carried_class")
    again = arrives(mine)
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1
    assert type(again).__name__ == "Mine"
    assert type(again).__module__ == "carried_class"


def test_a_folder_that_the_driver_does_not_import_from_is_not_brought(tmp_path: Path) -> None:
    assert arrives({"a": 1}) == {"a": 1}
    assert str(tmp_path) not in sys.path


def test_an_actor_imports_no_numpy_until_it_has_to_copy_files() -> None:
    """It takes as long to import as all else that an actor that starts anew imports of ours."""
    parts = ("ray_actor", "backends", "driver_liveness", "leases", "processes", "worker")
    modules = ", ".join(f"actors.{part}" for part in parts)
    code = f"import sys, {modules}, distprove.host.provenance; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    # What its workers are forked from has it.
    code = "import sys, actors.server; assert {'numpy', 'kernels.interface.backend'} <= sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
