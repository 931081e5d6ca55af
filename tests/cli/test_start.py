"""What is imported before a command's own work begins: nothing that it does not use, and no other command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distprove.cli.app import COMMANDS, SECTIONS, app, load
from distprove.proof import BEGINS

HEAVY = {"numpy", "rich", "ray", "msgpack", "psutil", "wasmtime", "tomllib", "tomli", "cupy", "cuda"}
HEAVY |= {"actors", "cluster"}
"""Packages that take long to import, or that start something."""
LISTER = """
import os, sys
from distprove.cli import main
from distprove.cli.app import COMMANDS

for line in sys.argv[1:]:
    sys.stdout.flush()
    if os.fork() == 0:
        sys.argv[1:] = line.split()
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        print("\\nmodules:", line, ":", *sys.modules, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""
BESIDE = {
    "bench": {
        "backends",
        "filecoin",
        "measured",
        "openvm_profile",
        "option_groups",
        "programs",
        "prove",
        "scaling",
        "service_rate",
        "sweep",
        "variadic",
    },
    "aggregate": {"backends", "option_groups"},
    "air": {"option_groups", "programs"},
    "demo": {"backends", "option_groups", "programs", "prove", "variadic"},
    **{name: {"jobs", "option_groups"} for name in ("await", "cancel", "down", "list", "logs", "status", "submit")},
    "export": {"option_groups", "verify"},
    "gnark": {"option_groups"},
    "kernels": {"option_groups", "variadic"},
    "key": {"option_groups", "programs"},
    "new": {"option_groups"},
    "prove": {"backends", "option_groups", "programs", "variadic"},
    "resume": {"backends", "option_groups", "programs", "prove", "variadic"},
    "security": {"option_groups", "programs"},
    "setup": {"backends", "option_groups", "programs", "zkey"},
    "sweep": {"backends", "option_groups", "programs", "prove", "variadic"},
    "keys": {"jobs", "option_groups"},
    "ptau": {"backends", "option_groups", "zkey"},
    "r1cs": {"option_groups"},
    "wtns": {"backends", "option_groups"},
    "zkey": {"backends", "option_groups"},
}
"""The modules of `distprove.cli` that a command needs beside its own, for its options; those not named need one."""


PROGRAM = "prove stark fibonacci --help"
LINES = ("--help", "--version", PROGRAM, *(f"{name} --help" for name in COMMANDS))


INTERRUPTED = """
import importlib.abc, os, signal, sys


class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), number) if where == "import" else Last()


class Last:
    def __del__(self):  # Python raises nothing from here, as from the callbacks of its own imports
        os.kill(os.getpid(), number)
        [None for _ in range(100)]


sys.argv[0] = "/usr/bin/distprove"
module, where, number = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
sys.meta_path.insert(0, Interrupts())
from distprove.cli import main
main()
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """The modules that each of `LINES` imports, in a fork of a process that has run no command."""
    done = subprocess.run([sys.executable, "-c", LISTER, *LINES], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = (line.split(" : ") for line in done.stdout.splitlines() if line.startswith("modules: "))
    return {line.removeprefix("modules: "): set(modules.split()) for line, modules in found}


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_the_overview_imports_no_command(imported: dict[str, set[str]]) -> None:
    for line in ("--help", "--version"):
        modules = imported[line]
        assert not packages(modules) & HEAVY
        assert {name for name in modules if name.startswith(("kernels.", "distprove."))} == {
            *("distprove.cli", "distprove.cli.app", "distprove.cli.console", "distprove.cli.plain_help"),
            "distprove.cli.streams",
            *("distprove.errors", "distprove.formats", "distprove.formats.visible", "kernels.errors"),
            *("kernels.host", "kernels.host.units"),
        }


def test_a_services_client_imports_nothing_that_computes() -> None:
    """Its start is a part of each job's time."""
    script = (
        "import sys\n"
        "from distprove.cli import app, progress, prove, summary, through_service\n"
        "from distprove.job import Job\n"
        "import cluster.record.run, cluster.service.client\n"
        "Job.from_options('stark', program='riscv', arguments={'elf': __file__}, as_client=True)\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, 'kernels._native' in sys.modules)"
    )
    script = script.replace("__file__", repr(str(Path(__file__))))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    *found, computes = done.stdout.split()
    assert computes == "False", done.stderr
    assert {"cluster", "rich"} <= {*found}
    assert not {*found} & {"numpy", "ray", "psutil", "aiohttp", "cupy", "cuda"}


FIRST = """
import sys
from cluster import opening
from distprove.cli import main

def opened(*given, plain=opening.open_fleet):
    print("display" if "rich" in sys.modules else "workers", "first", file=sys.stderr)
    return plain(*given)

opening.open_fleet = opened
sys.argv[1:] = ["prove", "stark", "fibonacci", "--rows", "16", "--partitions", "2", "--local", "--out", "run"]
main()
"""


def test_workers_begin_before_the_display_is_imported(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "workers first" in done.stderr
    assert "[2/2]" in done.stderr, "and then it shows what there is"


def test_the_overview_lists_all_commands_by_what_they_are_for() -> None:
    told = CliRunner().invoke(app, ["--help"]).stdout
    listed = re.findall(r"^(?:  )?(\w[\w ]*?)(?::$|  +[A-Z])", told[told.index("\nProve:") :], re.MULTILINE)
    assert listed == [word for title, commands in SECTIONS.items() for word in (title, *commands)]


@pytest.mark.parametrize(
    ("words", "completed"),
    [("pro", "prove"), ("prove gro", "groth16"), ("prove groth16 --zk", "--zkey"), ("key fib", "fibonacci")],
)
def test_a_shell_completes_commands_programs_and_options(words: str, completed: str) -> None:
    line = f"distprove {words}"
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_DISTPROVE_COMPLETE": "complete_bash"}
    script = "import sys; sys.argv[1:] = []; from distprove.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.split()) == (0, [completed]), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_what_its_options_need(name: str, imported: dict[str, set[str]]) -> None:
    modules = imported[f"{name} --help"]
    assert not packages(modules) & HEAVY
    assert "kernels._native" not in modules
    ours = {part for part in modules if part.startswith("distprove.cli.")}
    allowed = {"app", "console", "plain_help", "streams", name, *BESIDE.get(name, {"option_groups"})}
    assert ours <= {f"distprove.cli.{module}" for module in allowed}


def test_the_programs_are_listed_without_what_computes_them(imported: dict[str, set[str]]) -> None:
    assert not packages(imported[PROGRAM]) & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_the_first_of_its_help(name: str) -> None:
    told = " ".join(load(name).help.split("\n\n")[0].split())
    assert COMMANDS[name].help == told


def test_what_is_no_aggregate_is_told_without_what_verifies_one(tmp_path: Path) -> None:
    path = tmp_path / "proof.msgpack"
    path.write_bytes(BEGINS[0])
    script = (
        "import sys; from pathlib import Path; from distprove.cli.aggregate import is_aggregate;"
        "print(is_aggregate(Path(sys.argv[1])), 'distprove.groth16.aggregate.jobs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["False", "False"], done.stderr


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("module", "where", "number"),
    [
        ("distprove.cli", "import", signal.SIGINT),
        ("distprove.cli", "import", signal.SIGTERM),
        ("typer", "import", signal.SIGINT),
        ("distprove.cli.prove", "import", signal.SIGHUP),
        ("cluster.session", "import", signal.SIGINT),
        ("cluster.session", "import", signal.SIGTERM),
        ("typer", "callback", signal.SIGINT),
        ("cluster.session", "callback", signal.SIGINT),
    ],
)
def test_an_interrupt_during_imports_has_its_exit_code(
    module: str, where: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Before the command's `main`, before Typer is there, while it looks for the command, and in the command."""
    (tmp_path / "job.toml").write_text('system = "stark"\nprogram = "fibonacci"\narguments = { rows = 8 }\n')
    command = [
        sys.executable,
        "-c",
        INTERRUPTED,
        module,
        where,
        str(int(number)),
        "prove",
        "job.toml",
        "--out",
        "run",
        "--local",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


FORKS = """
import os, signal
from distprove import cli


def run():
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(1)
    print(-os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os.kill(os.getpid(), signal.SIGHUP)


cli._run = run
cli.main()
"""


@pytest.mark.usefixtures("interruptible")
def test_a_process_that_a_command_forks_is_ended_by_the_signals_that_interrupt_the_command() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == (f"{signal.SIGTERM.value}\n", 130), done.stderr


HIDDEN = """
import importlib.machinery, sys
sys.argv[0] = "/usr/bin/distprove"
sys.meta_path.insert(0, importlib.machinery.PathFinder)  # before the finder of an editable install
sys.path.insert(0, ".")
from distprove.cli import main
main()
"""


@pytest.mark.parametrize(
    ("file", "code"), [("kernels.py", 3), ("kernels/__init__.py", 3), ("cluster.py", 1), ("numpy.py", 1)]
)
def test_a_module_in_the_way_of_ours_or_of_a_library_is_named(file: str, code: int, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    command = [sys.executable, "-c", HIDDEN, "prove", "stark", "fibonacci", "--rows", "8", "--out", "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    said = " ".join(done.stderr.split())
    assert done.returncode == code, done.stderr
    assert f"`import {Path(file).parts[0].removesuffix('.py')}` finds" in said
    assert str(tmp_path / file) in said.replace("' ", "'")
    assert "rename it" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def test_python_says_which_module_is_in_the_way() -> None:
    script = "import sys, types; sys.modules['kernels'] = types.ModuleType('kernels'); import distprove"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "ImportError: `import kernels` finds None, which is not distprove's" in done.stderr
