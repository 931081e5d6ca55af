"""docs/coming-from.md: every command of ours that it names exists, with every option."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import run
from tests.support import ROOT

TEXT = (ROOT / "docs/coming-from.md").read_text()
COMMANDS = sorted(set(re.findall(r"`(distprove [^`]+)`", TEXT)))


def test_there_are_as_many_as_the_page_has() -> None:
    assert len(COMMANDS) >= 20


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_exists(command: str) -> None:
    words = command.split()[1:]
    options = [word for word in words if word.startswith("--")]
    names = words[: next((k for k, word in enumerate(words) if not word.isalnum()), len(words))]
    told = ""
    while names:  # up to the first argument, which may look like a command
        done = run(*names, "--help")
        if done.exit_code == 0:
            told += done.stdout
            break
        names.pop()
    assert names, command
    assert [option for option in options if option not in told] == []
