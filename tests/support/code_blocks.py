"""The code blocks of a document, and a shell that runs them in order, as a reader would.

    commands            indented by four spaces: run by bash, all in one shell
    ```text             lines that the commands before it print, in this order; spaces count as one
    ```LANG title="F"   the content of the file F
    ```python           a script of its own

A block behind `<!-- not run: REASON -->` is not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

_FENCE = re.compile(r"```(\w*)(?: title=\"([^\"]+)\")? *$")
_SKIPPED = re.compile(r"<!-- not run: (.+) -->$")
_MARK = "--- block {number} ended ---"


@dataclass(frozen=True)
class Block:
    """A block of code of a document."""

    kind: str
    """`commands`, or the language of a fence."""
    text: str
    line: int
    title: str = ""
    """The file that it is the content of; empty for others."""
    not_run: str = ""
    """Why it is not run."""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a Markdown text, in order."""
    lines = text.split("\n")
    at, reason, before = 0, "", ""
    while at < len(lines):
        line, start = lines[at], at
        fence, skipped = _FENCE.match(line), _SKIPPED.match(line)
        if fence is not None:
            at = next(k for k in range(at + 1, len(lines)) if lines[k].rstrip() == "```")
            yield Block(fence[1], "\n".join(lines[start + 1 : at]) + "\n", start + 1, fence[2] or "", reason)
            reason = ""
        elif skipped is not None:
            reason = skipped[1]
        elif line.startswith("    ") and not before.strip():
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                at += 1
            code = "\n".join(each[4:] for each in lines[start : at + 1]).rstrip()
            yield Block("commands", code + "\n", start + 1, not_run=reason)
            reason = ""
        before = lines[at]
        at += 1


@dataclass
class Reader:
    """Someone who follows a document in a folder of their own."""

    folder: Path
    programs: Mapping[str, str]
    """Scripts of bash that stand for programs a reader has, by name."""

    def environment(self) -> dict[str, str]:
        shims = self.folder / ".bin"
        shims.mkdir(exist_ok=True)
        module = f'exec "{sys.executable}" -m distprove "$@"'
        own = {"distprove": module, "python": f'exec "{sys.executable}" "$@"', **self.programs}
        for name, script in own.items():
            (shims / name).write_text(f"#!/bin/bash\n{script}\n")
            (shims / name).chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DISTPROVE", "XDG", "MAKE"))}
        return {
            **kept,
            "PATH": f"{shims}:{kept['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(self.folder / ".state"),
            "COLUMNS": "120",
            "CUDA_VISIBLE_DEVICES": "",
        }

    def follow(self, text: str) -> list[Block]:
        """Run the blocks of a document in order. Returns those that ran; AssertionError for one that fails."""
        script, ran, expected = ["set -e"], list[Block](), dict[int, Block]()
        for block in blocks(text):
            if block.not_run:
                continue
            ran.append(block)
            place = f"echo block of line {block.line} >&3"
            if block.kind == "text":
                expected[len(script)] = block
                script.append(f"echo '{_MARK.format(number=len(script))}'")
            elif block.title:
                script.append(f"{place}\ncat > '{block.title}' <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK")
            elif block.kind == "python":
                script.append(f"{place}\npython - <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK")
            else:
                assert block.kind == "commands", f"line {block.line}: a block of {block.kind} without a title"
                script.append(f"{place}\n{block.text}")
        with open(self.folder / ".blocks", "wb") as places:
            done = subprocess.run(
                ["bash", "-c", 'exec 3>&"$0"; exec bash -s', str(places.fileno())],
                input="\n".join(script),
                pass_fds=[places.fileno()],
                cwd=self.folder,
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=280,
            )
        last = (self.folder / ".blocks").read_text().splitlines()[-1:]
        assert done.returncode == 0, f"{last}: exit code {done.returncode}\n{done.stdout}"
        printed = done.stdout
        for number, block in expected.items():
            shown, _, printed = printed.partition(_MARK.format(number=number))
            _require_in_order(block, " ".join(shown.split()))
        return ran


def _require_in_order(block: Block, shown: str) -> None:
    at = 0
    for line in block.text.splitlines():
        wanted = " ".join(line.split())
        found = shown.find(wanted, at)
        assert found >= 0, f"line {block.line}: not printed, or not in this order: {wanted!r}\n{shown}"
        at = found + len(wanted)
