"""Imports point one way: kernels <- distprove (proof systems) <- actors <- cluster <- distprove/cli, distprove/api."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kernels", "distprove", "actors", "cluster")
TOP = ("distprove/cli/", "distprove/api.py", "distprove/__main__.py")
ALLOWED = {
    "kernels": {"kernels"},
    "distprove": {"kernels", "distprove"},
    "actors": {"kernels", "distprove", "actors"},
    "cluster": {"kernels", "distprove", "actors", "cluster"},
    "top": set(PACKAGES),
}


def modules() -> list[Path]:
    return [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    relative = path.relative_to(ROOT).as_posix()
    layer = "top" if relative.startswith(TOP) else relative.split("/")[0]
    if relative == "distprove/__init__.py":
        layer = "top"  # re-exports the API, lazily
    used = {name.split(".")[0] for name in imported(path)} & set(PACKAGES)
    assert used <= ALLOWED[layer], f"{relative} imports {sorted(used - ALLOWED[layer])}"
    if layer in ("kernels", "distprove"):
        assert "ray" not in {name.split(".")[0] for name in imported(path)}, f"{relative} knows Ray"
    if layer == "distprove":
        below = [n for n in imported(path) if n.startswith(("distprove.cli", "distprove.api"))]
        assert not below, f"{relative} imports {below}"
