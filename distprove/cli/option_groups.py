"""Options that several commands share, declared once: a dataclass whose fields are options.

    @dataclass(frozen=True)
    class Where(OptionGroup):
        device: Annotated[int, typer.Option(help="CUDA device.")] = 0

    @takes_groups
    def command(where: Where, ...) -> None: ...

The command then has every field of `Where` as an option of its own. A `SettingsGroup` has those fields of a dataclass
of settings that name an option.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import typer

from distprove.errors import UsageError
from distprove.formats.files import FILE, kind_at, require_apart
from distprove.options import Setting, settings_of

Command = TypeVar("Command", bound=Callable[..., Any])

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
TreeWires = Annotated[
    int | None,
    typer.Option(
        "--tree-wires", min=1, metavar="N", help="Of one proof of a job: the most wires of circuits to make for it."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]


@dataclass(frozen=True)
class Writes:
    """Marks an option as a path that its command writes: `Annotated[Path, typer.Option(...), Writes()]`.

    All other paths of a command are read. `check_paths` compares them before anything is written.
    """

    files: Callable[[Path, Mapping[str, Any]], Iterable[Path]] | None = lambda path, given: (path,)
    """The files that are written for it, none of which may be there without --overwrite; None for a folder that the
    command itself looks into."""
    owns: bool = False
    """Whether the command may replace all that is in the folder."""


@dataclass(frozen=True)
class Reads:
    """Marks an option that is a text, or texts NAME=VALUE, as one that may name files that are read; or says which
    `files` are read beside a path."""

    files: Callable[[Path], Iterable[Path]] = lambda path: ()


def run_files(path: Path) -> list[Path]:
    """The files of a run, which others may lie beside."""
    from cluster.record.run import FILES, PARTITIONS

    return [*(path / name for name in (*FILES, PARTITIONS)), *(path / PARTITIONS).glob("*")]


def only_reads(command: Callable[..., Any], name: str) -> bool:
    """Whether a command only reads the files at its parameter `name`."""
    parameter = inspect.signature(command, eval_str=True).parameters.get(name)
    return any(isinstance(mark, Reads) for mark in getattr(parameter and parameter.annotation, "__metadata__", ()))


def check_paths(command: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise UsageError where a command with these arguments would write over what it reads, two things at one place, or
    over a file unasked."""
    files, folders, owned, read = list[Path](), list[Path](), list[Path](), list[Path]()
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        marks = {type(mark): mark for mark in getattr(parameter.annotation, "__metadata__", ())}
        mark, value = marks.get(Writes), given.get(name)
        if mark is None:
            for each in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(each, str) and Reads in marks:
                    read.append(Path(each.partition("=")[2] or each))
                elif isinstance(each, Path):
                    read += [each, *marks.get(Reads, Reads()).files(each)]
        elif value is not None and mark.files is not None:
            files += mark.files(value, given)
        elif value is not None and not (mark.owns and given.get("resume_existing")):
            (owned if mark.owns else folders).append(value)
    require_apart([*files, *folders], read, owned)
    for path in files:
        kind = kind_at(path)
        if kind not in ("", FILE):
            raise UsageError(f"{path} is {kind}, and no file can be written there")
        if kind and not given.get("overwrite"):
            raise UsageError(f"{path} is there already; --overwrite replaces it")


class OptionGroup:
    """Marks a dataclass of options."""

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """The options as parameters of a command."""
        hints = typing.get_type_hints(cls, include_extras=True)
        made = fields(cls)  # type: ignore[arg-type]
        return [option(f.name, hints[f.name], NEEDED if f.default is MISSING else f.default) for f in made]


class SettingsGroup(OptionGroup):
    """The fields of a dataclass of settings that name an option: all, or those in `only`, without those in `but`."""

    settings: ClassVar[Any]
    panel: ClassVar[str]
    only: ClassVar[Collection[str]] = ()
    but: ClassVar[Collection[str]] = ()
    unset: ClassVar[bool] = False
    """Whether an option that is not given is None, and not the setting's default."""

    def __init__(self, **given: Any) -> None:
        self.values: dict[str, Any] = {**{p.name: p.default for p in self.options()}, **given}

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        named = {n: s for n, s in settings_of(cls.settings).items() if s.flag and n not in cls.but}
        return [cls._option(name, told) for name, told in named.items() if name in cls.only or not cls.only]

    @classmethod
    def _option(cls, name: str, told: Setting) -> inspect.Parameter:
        kind: Any = str if told.size else list[str] if told.types[0] is tuple else told.types[0]
        least, most = told.bounds if told.bounds and kind is int else (None, None)
        help = f"{_sentence(told)}."
        said = typer.Option(told.flag, help=help, min=least, max=most, metavar=told.metavar, rich_help_panel=cls.panel)
        if told.default is MISSING:
            return option(name, Annotated[kind, said], NEEDED)
        default = None if cls.unset or told.default == () else told.default
        return option(name, Annotated[kind | None if default is None else kind, said], default)


def _sentence(told: Setting) -> str:
    """What the setting is, with a capital unless it begins with a value, which has to be given as it is written."""
    first = told.about.replace(",", " ").replace(":", " ").split()[0]
    is_value = first in told.choices or first == told.default
    return told.about if is_value else f"{told.about[0].upper()}{told.about[1:]}"


NEEDED = inspect.Parameter.empty


def option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """A parameter of a command that typer makes an option of; `NEEDED` for no default."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def takes_groups(command: Command, **made: type[OptionGroup]) -> Command:
    """`command` with each parameter of an `OptionGroup` class replaced by its fields, as typer sees it.

    `made` has the classes of parameters, by name, whose annotations do not say them.
    """
    groups: dict[str, type[OptionGroup]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = made.get(parameter.name, parameter.annotation)
        if inspect.isclass(group) and issubclass(group, OptionGroup):
            groups[parameter.name] = group
            parameters += group.options()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    names = {name: [option.name for option in group.options()] for name, group in groups.items()}

    @functools.wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        chosen = {name: groups[name](**{n: given.pop(n) for n in names[name] if n in given}) for name in groups}
        return command(*args, **given, **chosen)

    typed: Any = run
    typed.__signature__ = inspect.Signature(parameters)  # typer passes everything by name
    typed.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return typed  # type: ignore[no-any-return]
