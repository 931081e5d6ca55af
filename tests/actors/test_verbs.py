"""Verbs between scheduler and workers are functions: checked by their types here, and by their class over there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.backends import BackendChoice
from actors.grants import Ungoverned
from actors.messages import HostSpec
from actors.processes import HostProcess
from actors.protocol import Host, WorkerDied
from actors.rooms import Rooms, RoomsHere
from actors.synthesiser import SynthesiserServer
from actors.worker import Worker
from kernels.host.arena import HostArena
from tests.support import ROOT
from tests.support.toy_system import TOY_BACKEND

SOURCES = [*(ROOT / "actors").rglob("*.py"), *(ROOT / "cluster" / "executor").rglob("*.py")]


def named_at_run_time(path: Path) -> Iterator[str]:
    """Calls of `getattr` with a name that is not in the source. A name in an entry point, `module:name`, is of the
    registry of backends, and no message has one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            target, name = node.args[:2]
            entry = isinstance(target, ast.Call) and ast.unparse(target.func) == "import_module"
            if not isinstance(name, ast.Constant) and not entry:
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_message_names_a_method() -> None:
    assert [place for path in SOURCES for place in named_at_run_time(path)] == []


WRONG = """
from actors.protocol import Slot
from actors.worker import Worker

def wrong(slot: Slot) -> str:
    slot.call(Worker.load, "first", True)
    slot.tell(Worker.give_back)
    slot.call(Worker.check, 1)
    slot.tell(Worker.forget, "a", 1)
    return slot.call(Worker.batch, 1.0)
"""


def test_a_type_checker_sees_both_sides_of_a_verb(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", tmp_path / "wrong.py"], cwd=ROOT, capture_output=True, text=True, timeout=250
    )
    assert re.findall(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]", done.stdout) == [
        ("6", "arg-type"),
        ("7", "call-arg"),
        ("8", "call-arg"),
        ("10", "return-value"),
    ], done.stdout + done.stderr


@pytest.fixture(params=["thread", "process"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    spec = HostSpec("prover-0", BackendChoice(TOY_BACKEND), 1)
    with HostArena() as arena:
        made: Host = RoomsHere(spec, Ungoverned(), arena)
        if request.param == "process":
            made = HostProcess(spec.name, spec, Ungoverned())
        made.start()
        try:
            yield made
        finally:
            made.end()


def test_a_verb_of_what_is_not_served_is_refused(host: Host) -> None:
    """It would run on an object of another class, and fail somewhere inside."""
    with pytest.raises(TypeError, match=r"Worker\.check is no verb of _?Rooms"):
        host.call(Worker.check)
    with pytest.raises(TypeError, match=r"SynthesiserServer\.cancel is no verb of _?Rooms"):
        host.call(SynthesiserServer.cancel, 1)
    with pytest.raises(WorkerDied, match="not loaded in this process"):
        host.carry(1, Worker.check, (), {})
    host.call(Rooms.close)
