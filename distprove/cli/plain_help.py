"""Typer's applications and commands, with help in plain text: Rich, which lays it out else, takes longer to import than
most commands take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

Command = TypeVar("Command", bound=Callable[..., Any])


class App(typer.Typer):
    """An application whose help, and whose commands' help, is plain."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"add_completion": False, "cls": PlainGroup, "rich_markup_mode": None, **given})

    def command(self, name: str | None = None, **given: Any) -> Callable[[Command], Command]:  # type: ignore[override]
        return super().command(name, **{"cls": PlainCommand, **given})


class _Plain:
    help: str | None

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first paragraph of the help, in full: it is what stands beside the command in a list."""
        return " ".join((self.help or "").partition("\n\n")[0].split())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for arguments and one for each group of options, in the order in which they first occur."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in ctx.command.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class PlainCommand(_Plain, TyperCommand):
    """A command whose help has its options in groups, and whose errors name all options that are missing or wrong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except typer.BadParameter:
            faults = list(self._faults(ctx, args))
            if len(faults) > 1:
                ctx.fail("\n".join(faults))
            raise

    def _faults(self, ctx: Any, args: list[str]) -> Iterator[str]:
        """What is wrong with each option or argument, in the order of the help."""
        given, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        for param in self.get_params(ctx):
            try:
                _, rest = param.handle_parse_result(ctx, given, rest)
            except typer.BadParameter as error:
                yield error.format_message()


class PlainGroup(_Plain, TyperGroup):
    """A group of commands whose help has its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
