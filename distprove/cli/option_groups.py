"""Options that several commands share, declared once: a dataclass whose fields are options.

    @dataclass(frozen=True)
    class Where(OptionGroup):
        device: Annotated[int, typer.Option(help="CUDA device.")] = 0

    @takes_groups
    def command(where: Where, ...) -> None: ...

The command then has every field of `Where` as an option of its own.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., Any])

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]


class OptionGroup:
    """Marks a dataclass of options."""


def takes_groups(command: Command) -> Command:
    """`command` with each parameter of an `OptionGroup` class replaced by its fields, as typer sees it."""
    groups: dict[str, type[OptionGroup]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, OptionGroup):
            groups[parameter.name] = parameter.annotation
            parameters += _options(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    names = {name: [option.name for option in _options(group)] for name, group in groups.items()}

    @functools.wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        made = {name: groups[name](**{n: given.pop(n) for n in names[name] if n in given}) for name in groups}
        return command(*args, **given, **made)

    typed: Any = run
    typed.__signature__ = inspect.Signature(parameters)  # typer passes everything by name
    typed.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return typed  # type: ignore[no-any-return]


def _options(group: type[OptionGroup]) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=_default(f), annotation=hints[f.name])
        for f in fields(group)  # type: ignore[arg-type]
    ]


def _default(option: Field[Any]) -> Any:
    return inspect.Parameter.empty if option.default is MISSING else option.default
