"""What `make` does on machines that lack something, with stand-ins for the programs that it calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

# A Python whose headers would be below {include}, and that cannot run modules.
PYTHON = f"""#!/bin/sh
test "$1" = -c && exec '{sys.executable}' -c "import sysconfig; sysconfig.get_path = lambda name: '{{include}}'; $2"
exit 1
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def make(*args: str) -> subprocess.CompletedProcess[str]:
    # A make around this one must not pass on its options.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *args], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)


def test_a_missing_compiler_is_named() -> None:
    done = make("check-tools", f"PYTHON={sys.executable}", "CXX=no-such-compiler")
    assert done.returncode != 0
    assert "install the package g++" in done.stderr


@pytest.mark.parametrize("version", [(3, 9), (3, 14)])
def test_another_python_is_refused(version: tuple[int, int], tmp_path: Path) -> None:
    pretence = f"#!/bin/sh\nexec '{sys.executable}' -c \"import sys; sys.version_info = {version}; $2\"\n"
    python = program(tmp_path / "python", pretence)
    done = make("check-tools", f"PYTHON={python}")
    assert done.returncode != 0
    assert "needs Python 3.10 to 3.13" in done.stderr


def test_a_missing_pip_is_named(tmp_path: Path) -> None:
    python = program(tmp_path / "python", PYTHON.format(include="/nowhere"))
    target = str(tmp_path / "uv")
    done = make(target, f"PYTHON={python}", f"UV={target}", "CXX=true")
    assert done.returncode != 0
    assert "install the package python3-pip" in done.stderr


def make_environment(folder: Path, include: str) -> subprocess.CompletedProcess[str]:
    """Runs .ci/venv with the programs in folder/bin before the system's, for a Python with headers below `include`."""
    python = program(folder / "python", PYTHON.format(include=include))
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command = [ROOT / ".ci" / "venv", folder / "bin" / "uv", python, folder / "venv"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


# uv venv ... FOLDER, where only Pythons of this machine are to be had.
UV = """#!/bin/sh
case "$*" in *managed*) exit 2;; esac
for last; do :; done
mkdir "$last"
"""


def test_a_python_with_headers_needs_no_other(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "uv", UV)
    (tmp_path / "Python.h").touch()
    done = make_environment(tmp_path, str(tmp_path))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert list((tmp_path / "venv").iterdir()) == []


def test_headers_come_from_the_distributions_package(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "uv", UV)
    program(tmp_path / "bin" / "apt-get", '#!/bin/sh\nfor last; do :; done\ntouch "${last}_1_amd64.deb"\n')
    dpkg = """#!/bin/sh
        mkdir -p usr/include/nowhere usr/include/x86_64-linux-gnu/nowhere
        touch usr/include/nowhere/Python.h
        echo wrapper > usr/include/nowhere/pyconfig.h
        echo real > usr/include/x86_64-linux-gnu/nowhere/pyconfig.h
        """
    program(tmp_path / "bin" / "dpkg-deb", dpkg)
    done = make_environment(tmp_path, "/usr/include/nowhere")
    assert done.returncode == 0, done.stderr
    headers = tmp_path / "venv" / "include-python"
    assert (headers / "Python.h").is_file()
    assert (headers / "pyconfig.h").read_text() == "real\n"


def test_headers_that_are_nowhere_are_named(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "uv", UV)
    program(tmp_path / "bin" / "apt-get", "#!/bin/sh\nexit 100\n")
    done = make_environment(tmp_path, "/usr/include/nowhere")
    assert done.returncode == 1
    assert "install the package python3-dev" in done.stderr
