"""Commands that take a STARK program: `COMMAND PROGRAM [the program's options] [the command's own]`.

Each program that ships is a subcommand with its arguments as options, made from the registry when it is asked for. A
program of one's own is named MODULE:CLASS and takes its arguments as `--with NAME=VALUE`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from distprove.cli.console import reports_errors
from distprove.cli.option_groups import NEEDED, Reads, SettingsGroup, option
from distprove.cli.plain_help import App, PlainCommand, PlainGroup
from distprove.errors import UsageError
from distprove.formats.owncode import import_also_from
from distprove.stark.options import StarkOptions
from distprove.stark.params import BLOWUPS

if TYPE_CHECKING:
    from distprove.stark.program import Cut, Program
    from distprove.stark.programs import Argument, ProgramEntry

PROGRAM = "The program"
OWN = "MODULE:CLASS"
FIRST = 2
"""A run function's first parameters are the program's name and its arguments; the rest are the command's options."""

Run = Callable[..., None]

SECURITY = "How secure it is"
Partitions = Annotated[
    int | None,
    typer.Option(
        min=1, help="Partitions to cut it into; by default 1, or as its execution tells.", rich_help_panel=PROGRAM
    ),
]


class Soundness(SettingsGroup):
    """Options that the parameters of a proof follow from."""

    settings, panel = StarkOptions, SECURITY
    only: ClassVar[Collection[str]] = ("engine", "prefer", "blowup", "security", "grinding", "queries", "hash")
    not_of_engine: ClassVar[Collection[str]] = ("engine", "one_proof", "contract")
    """Names of options that `choose_parameters` does not take."""

    @property
    def prefer(self) -> str:
        """What is preferred, "speed" or "size", to load a program with. Raises UsageError."""
        prefer: str = self.values["prefer"]
        if prefer not in BLOWUPS:
            raise UsageError(f"--prefer must be {' or '.join(BLOWUPS)}, not {prefer!r}")
        return prefer

    def choose(self, program: Program, partitions: int, known: Sequence[Sequence[int | None]] | None = None) -> Any:
        """The parameters for `program` in so many partitions; `known` are the heights of their tables that its cut has
        told. Raises UsageError."""
        from distprove.stark.engine import engine_named
        from distprove.stark.multilinear.params import LOG_FINAL_IN_CIRCUITS

        given = {name: value for name, value in self.values.items() if name not in self.not_of_engine}
        if self.values.get("one_proof") or self.values.get("contract"):
            given["log_final"] = LOG_FINAL_IN_CIRCUITS
        engine = engine_named(self.values["engine"])
        if self.values.get("contract"):
            from distprove.stark.wrap.contract_system import contract_parameters

            queries = given.pop("queries")
            heights = known or program.log_heights(partitions)
            return contract_parameters(partial(engine.choose, program, **given), heights[0], queries)
        return engine.choose(program, partitions, known=known, **given)


class JobSoundness(Soundness):
    """The options of `Soundness`, with `one_proof` and `contract`, which decide parameters too."""

    only = (*Soundness.only, "one_proof", "contract")

    def level(self, program: Program, made: Cut) -> Cut:
        """The cut of a job that ends in one proof, as `prove` levels it. Raises UsageError."""
        from distprove.stark.recursion.levelling import level

        return program.levelled(made) if self.contract else level(program, made, partial(self.choose, program))

    @property
    def contract(self) -> bool:
        """Whether a contract reads the job."""
        chosen: bool = self.values["contract"]
        return chosen

    @property
    def one_proof(self) -> bool:
        """Whether the job ends in one proof. Raises UsageError for an engine or hash with which it cannot."""
        from distprove.stark.options import check_one_proof

        chosen: bool = self.values["one_proof"] or self.contract
        if chosen:
            check_one_proof(self.values["engine"], self.values["hash"])
        return chosen


With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="NAME=VALUE", help="An argument of the program.", rich_help_panel=PROGRAM),
    Reads(),
]


class ProgramGroup(PlainGroup):
    """The programs as subcommands. Subclasses say what is done with one: `run(program, arguments, **options)`."""

    run: Run

    def list_commands(self, ctx: Any) -> list[str]:
        from distprove.stark.programs import PROGRAMS

        return [*PROGRAMS, OWN]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from distprove.stark.programs import PROGRAMS

        if cmd_name in PROGRAMS:
            return _shipped(PROGRAMS[cmd_name], type(self).run)
        return _own(cmd_name, type(self).run) if ":" in cmd_name else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and ":" not in args[0]:
            from distprove.stark.programs import find_program

            try:
                find_program(args[0])
            except UsageError as error:
                ctx.fail(str(error))
        return super().resolve_command(ctx, args)


def program_app(run: Run, help: str) -> typer.Typer:
    """A command group over all programs that does `run` with the one that is named."""
    group = type("Programs", (ProgramGroup,), {"run": staticmethod(run)})
    app = App(cls=group, no_args_is_help=True, help=help)
    app.callback()(lambda: None)
    return app


class _Shipped(PlainCommand):
    """The command of a program that ships, whose arguments are options; the error for `--with` names them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(word.partition("=")[0] == "--with" for word in args):
            from distprove.stark.programs import find_program

            own = ", ".join(_flag(argument.name) for argument in find_program(str(self.name)).arguments)
            ctx.fail(f"--with is for programs of your own; the arguments of {self.name} are {own}")
        return super().parse_args(ctx, args)


def _shipped(entry: ProgramEntry, run: Run) -> Any:
    def command(**given: Any) -> None:
        arguments = {a.name: given.pop(_parameter(a)) for a in entry.arguments}
        run(entry.name, {name: value for name, value in arguments.items() if value is not None}, **given)

    options = [option(_parameter(a), _annotation(a), NEEDED if a.default is None else None) for a in entry.arguments]
    return command_of(entry.name, entry.help, command, options, run, _Shipped)


def _own(name: str, run: Run) -> Any:
    def command(arguments: list[str] | None, **given: Any) -> None:
        import_from_here()
        run(name, pairs(arguments or []), **given)

    help = "A program of your own: package.module:Class."
    return command_of(name, help, command, [option("arguments", With, None)], run)


def command_of(
    name: str,
    help: str,
    command: Run,
    options: Sequence[inspect.Parameter],
    run: Run,
    cls: type[PlainCommand] = PlainCommand,
) -> Any:
    """A command with `options` and those of `run`: typer reads both from the signature."""
    own = list(inspect.signature(run, eval_str=True).parameters.values())[FIRST:]
    parameters = [*options, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
    required_first = sorted(parameters, key=lambda p: p.default is not inspect.Parameter.empty)
    typed: Any = reports_errors(command)
    typed.__signature__ = inspect.Signature(required_first)
    typed.__annotations__ = {p.name: p.annotation for p in required_first}
    app = App()
    app.command(name, help=help, cls=cls)(typed)
    return typer.main.get_command(app)


def _parameter(argument: Argument) -> str:
    """The argument as a Python parameter, which none of the commands' own options can be called."""
    return f"program_{argument.name}"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _annotation(argument: Argument) -> Any:
    metavar = {"integer": "N", "path": "PATH", "text": "TEXT"}[argument.kind]
    default = shown(argument.default) if argument.default is not None else None
    help = argument.help if default in (None, "") else f"{argument.help} (default {default})"
    flags = [_flag(name) for name in (argument.name, *argument.also)]
    said = typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=PROGRAM)
    kind: Any = str if argument.default is None else str | None
    return Annotated[kind, said, Reads()] if argument.kind == "path" else Annotated[kind, said]


def shown(value: int | str) -> str:
    """2^16 for 65536, as these numbers are meant."""
    if isinstance(value, int) and value >= 1 << 10 and value & (value - 1) == 0:
        return f"2^{value.bit_length() - 1}"
    return str(value)


def import_from_here() -> None:
    """Find modules beside which a command is run: authors run this beside their program."""
    import_also_from(Path.cwd())


def pairs(given: Sequence[str]) -> Mapping[str, str]:
    """The arguments that texts NAME=VALUE give. Raises UsageError."""
    named = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or name in named:
            raise UsageError(f"--with {text}: expected NAME=VALUE, each name once")
        named[name] = value
    return named
