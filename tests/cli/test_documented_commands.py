"""The commands in the documents: distprove takes each one in a block, and has all options that text names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from distprove.cli.app import app, load
from distprove.measure.prose import pages
from tests.support.code_blocks import blocks

TEXTS = {page: path.read_text(encoding="utf-8") for page, path in pages().items()}
AT_LEAST = {"in blocks": 100, "in text": 120}
"""Commands that the documents have; the tests would pass if they found none."""
NO_COMMAND = ["insecure-dev"]
"""With "distprove" before it the name of a contribution to a key (docs/groth16.md)."""


def in_blocks(text: str) -> Iterator[str]:
    """The command lines of distprove in the blocks that are typed, without its name."""
    for block in blocks(text):
        if block.kind == "commands":
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from re.findall(r"(?:^|[;&] *)distprove ([^;&#]*)", line)


def in_text(text: str) -> Iterator[str]:
    """Those that sentences and tables name, which leave out what is beside their point."""
    yield from re.findall(r"`distprove ([^`]+)`", text)


def below(command: Any, words: list[str]) -> tuple[Any, list[str]]:
    """The command of a group that words name as far as they do, and the words behind its name."""
    while hasattr(command, "list_commands") and words:
        context = command.make_context("group", [], resilient_parsing=True)
        if words[0] not in command.list_commands(context):
            break
        command, words = command.get_command(context, words[0]), words[1:]
    return command, words


def options_of(command: Any) -> set[str]:
    """The options of a command, or of all commands in a group."""
    found = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    if hasattr(command, "list_commands"):
        context = command.make_context("group", [], resilient_parsing=True)
        for name in command.list_commands(context):
            found |= options_of(command.get_command(context, name))
    return found


def test_the_documents_have_commands() -> None:
    for name, read in (("in blocks", in_blocks), ("in text", in_text)):
        assert sum(len(list(read(text))) for text in TEXTS.values()) >= AT_LEAST[name]


@pytest.mark.parametrize("page", sorted(TEXTS))
def test_distprove_takes_a_command_in_a_block(page: str) -> None:
    for line in in_blocks(TEXTS[page]):
        command: Any = typer.main.get_command(app)
        context = command.make_context("distprove", shlex.split(line))
        while hasattr(command, "resolve_command"):
            left = [*getattr(context, "_protected_args", ()), *context.args]
            name, command, left = command.resolve_command(context, left)
            context = command.make_context(name, left, parent=context)


@pytest.mark.parametrize("page", sorted(TEXTS))
def test_a_command_that_text_names_has_these_options(page: str) -> None:
    for line in in_text(TEXTS[page]):
        words = line.split()
        if words[0].startswith("-") or words == NO_COMMAND:
            continue
        command, rest = below(load(words[0]), words[1:])
        named = {word for word in rest if re.fullmatch(r"--[a-z][a-z-]*", word)}
        assert named <= options_of(command), line
