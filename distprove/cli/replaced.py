"""Options that were replaced, and what takes their place."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from distprove.cli.console import fail
from distprove.errors import UsageError

NEW_WAYS = {
    "--openvm-key": "`distprove prove swirl --key KEY --traces FILE --out RUN` proves, `distprove export RUN --out "
    "FILES` writes proof.bin, and `distprove verify FILES --vk KEY` verifies it",
}
"""For each option that is gone, what to type in its place."""


def refuse_replaced(args: Sequence[str]) -> None:
    """End the process with a message on the first replaced option among the words of a command, if there is one."""
    for name in (arg.partition("=")[0] for arg in args):
        if name in NEW_WAYS:
            fail(f"there is no option {name} any more", NEW_WAYS[name])
            raise typer.Exit(UsageError.exit_code)
