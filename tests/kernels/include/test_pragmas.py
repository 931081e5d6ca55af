"""What the CPU's sources include has no pragma of the device's compiler, of which the host's would warn."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
INCLUDE = KERNELS / "include"
NAMED = re.compile(r'^#include "([\w/]+\.h)"', re.MULTILINE)

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


def pragmas(text: str) -> list[str]:
    """The pragmas of a C++ text that the host's compiler would see, but those of its own."""
    command = ["c++", "-std=c++17", "-E", "-P", "-I", str(INCLUDE), "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("#pragma") and "GCC" not in line]


def shared_headers() -> set[str]:
    """The headers of the CPU's sources that the device's code shares."""
    sources = [path for path in (KERNELS / "cpu" / "src").iterdir() if path.suffix in (".cpp", ".h")]
    named = {name for path in sources for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    return {name for name in named if (INCLUDE / name).exists()}


def test_headers_have_no_pragma_of_the_device() -> None:
    headers = shared_headers()
    assert {"platform.h", "hash/sha256.h", "field/goldilocks.h"} <= headers
    assert pragmas("".join(f'#include "{name}"\n' for name in sorted(headers))) == []


def test_a_pragma_is_found() -> None:
    assert pragmas("#pragma unroll 1\n#pragma GCC diagnostic push\nDP_PRAGMA(unroll)\n") == ["#pragma unroll 1"]
