"""The registry of programs: their names, their arguments, and how they are made from these."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from distprove.errors import UsageError
from distprove.formats.nearest import nearest
from distprove.formats.owncode import import_named, names_code, own_faults, require_methods
from distprove.stark.params import MAX_LOG_HEIGHT
from kernels.maths.goldilocks import P

if TYPE_CHECKING:
    from distprove.stark.program import Program

Kind = Literal["integer", "path", "text"]


@dataclass(frozen=True)
class Argument:
    """An argument of a program, for the command line and job files."""

    name: str
    kind: Kind
    help: str
    default: int | str | None = None
    """Default value; None means that the argument must be given."""
    for_size: int | str | None = None
    """Default value where small proofs are preferred to fast ones, if it is another."""
    bound: bool = False
    """Whether the key says it, or follows from it: what a verifier can hold a proof to. Others are a prover's own."""
    range: tuple[int, int] | None = None
    """The least and the most of an integer."""
    power_of_two: bool = False
    choices: tuple[str, ...] = ()
    """The texts that it may be; all may where there are none."""
    also: tuple[str, ...] = ()
    """Other names of its option on the command line."""

    def check(self, value: int | str) -> None:
        """Raise UsageError for a value of the right kind that the program cannot have."""
        if self.choices and value not in self.choices:
            raise UsageError(
                f"{self.name} must be {' or '.join(each or 'empty' for each in self.choices)}, not {value!r}"
            )
        if self.range is None or not isinstance(value, int):
            return
        least, most = self.range
        if not least <= value <= most or (self.power_of_two and value & (value - 1)):
            kind = "a power of two" if self.power_of_two else "an integer"
            raise UsageError(f"{self.name} must be {kind} from {least} to {most}, not {value}")


@dataclass(frozen=True)
class ProgramEntry:
    """The entry of a program that ships."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    module: str
    """The place of its class, "module:Class". It is imported when it is used."""

    def make(self, given: Mapping[str, int | str], *, proving: bool = True, prefer: str = "speed") -> Program:
        """Make the program with these arguments, which `values` checks. Raises UsageError."""
        return load_class(self.module)(**self.values(given, proving=proving, prefer=prefer))

    def values(
        self, given: Mapping[str, int | str], *, proving: bool = True, prefer: str = "speed"
    ) -> dict[str, int | str]:
        """All arguments, checked and with their defaults.

        Paths tell where a prover's input is and are not part of a key: a verifier, which is not `proving`, leaves them
        out, and the program gets "". Raises UsageError for an argument that is unknown, missing or of the wrong kind.
        """
        known = {a.name: a for a in self.arguments}
        for name in given:
            if name not in known:
                hint = nearest(name, known) or f"; it takes {', '.join(known) or 'none'}"
                raise UsageError(f"program {self.name} has no argument {name}{hint}")
        values: dict[str, int | str] = {}
        for argument in self.arguments:
            smaller = prefer == "size" and argument.for_size is not None
            value = given.get(argument.name, argument.for_size if smaller else argument.default)
            if value is None and argument.kind == "path" and not proving:
                value = ""
            if value is None:
                raise UsageError(f"program {self.name} needs the argument {argument.name}: {argument.help}")
            values[argument.name] = integer(argument.name, value) if argument.kind == "integer" else str(value)
        self.check(**values)
        return values

    def check(self, **values: int | str) -> None:
        """Raise UsageError for an argument that is out of its bounds."""
        for argument in self.arguments:
            if argument.name in values:
                argument.check(values[argument.name])

    def unbound(self, given: Mapping[str, int | str]) -> list[str]:
        """Which of these arguments no key depends on, so that a proof cannot be held to them."""
        return [argument.name for argument in self.arguments if argument.name in given and not argument.bound]


_ROWS = Argument(
    *("rows", "integer", "rows of a partition's table, a power of two", 1 << 16),
    bound=True,
    range=(1, 1 << MAX_LOG_HEIGHT),
    power_of_two=True,
)
MAX_LOG_CYCLES = 21
"""log2 of the cycles of a segment, at most: times and their differences stay below 2^24."""
MOST_KECCAKS = ((1 << MAX_LOG_HEIGHT) - 1) // 24
"""Permutations of 24 rounds in a table, at most."""

PROGRAMS: dict[str, ProgramEntry] = {
    entry.name: entry
    for entry in (
        ProgramEntry(
            "fibonacci",
            "A Fibonacci sequence modulo p, each partition going on where the one before ended.",
            (
                _ROWS,
                Argument("first", "integer", "the sequence's first element", 0, range=(0, P - 1)),
                Argument("second", "integer", "its second", 1, range=(0, P - 1)),
            ),
            "distprove.stark.programs.fibonacci:Fibonacci",
        ),
        ProgramEntry(
            "wide-fibonacci",
            "One sequence of squares in every row, c[i+2] = c[i]^2 + c[i+1]^2: what provers are compared on.",
            (
                _ROWS,
                Argument("width", "integer", "columns", 32, bound=True, range=(3, 1 << 12)),
                Argument("seed", "integer", "what the rows' first elements are made from", 1, range=(1, (1 << 32) - 1)),
            ),
            "distprove.stark.programs.wide_fibonacci:WideFibonacci",
        ),
        ProgramEntry(
            "keccak-f",
            "Keccak-f[1600] permutations of numbered states, and the sums of their results.",
            (
                Argument("permutations", "integer", "permutations in a partition", 1365, range=(1, MOST_KECCAKS)),
                Argument("first", "integer", "number of the first state", 0, range=(0, (1 << 32) - 1)),
            ),
            "distprove.stark.programs.keccak_f:KeccakF",
        ),
        ProgramEntry(
            "range-check",
            "Values whose limbs are looked up in a table: an example of two tables that meet on a bus.",
            (
                Argument("values", "integer", "values in a partition", 1 << 16, range=(1, 1 << 24)),
                Argument("bits", "integer", "bits of a limb; a value has two limbs", 16, bound=True, range=(1, 16)),
                Argument("seed", "integer", "what the values are made from", 1, range=(0, (1 << 32) - 1)),
            ),
            "distprove.stark.programs.range_check:RangeCheck",
        ),
        ProgramEntry(
            "file-root",
            "The Merkle root of a file by Keccak-256 (RFC 6962's tree over chunks of 128 bytes), and its length.",
            (
                Argument("file", "path", "the file; only a prover needs it"),
                Argument(
                    *("layout", "text", "wide tables, or narrow ones for blow-up 4 or 8", "wide", "narrow"),
                    bound=True,
                    choices=("wide", "narrow"),
                ),
            ),
            "distprove.stark.programs.file_root:FileRoot",
        ),
        ProgramEntry(
            "riscv",
            "The execution of a guest program for RV32IM or RV64IM, cut into segments.",
            (
                Argument("elf", "path", "the guest's ELF file; only a prover needs it", bound=True),
                Argument("input", "path", "a file with the private input", ""),
                Argument("public", "path", "a file with the public input", "", also=("public_input",)),
                Argument(
                    *("segment", "integer", "cycles of a segment, a power of two", 1 << 20),
                    range=(2, 1 << MAX_LOG_CYCLES),
                    power_of_two=True,
                ),
                Argument(
                    "guest", "text", "the name that the guest must have; it is found in the ELF file", "", bound=True
                ),
                Argument(
                    *("calls", "text", "sp1 or openvm for a guest of that system, whose input has its form", ""),
                    bound=True,
                    choices=("", "sp1", "openvm"),
                ),
                Argument(
                    "heights",
                    "text",
                    "heights of every segment's tables, as cpu=20,host=16: a contract's program has the same for all "
                    "runs; by default those of the run",
                    "",
                ),
            ),
            "distprove.stark.riscv.program:RiscV",
        ),
    )
}


def load_program(name: str, arguments: Mapping[str, int | str], prefer: str = "speed") -> Program:
    """Make the program `name`, which ships or is a user's `MODULE:CLASS`, with these arguments.

    `prefer`, "speed" or "size", chooses among the defaults of a program that ships.
    Raises UsageError, and CodeFault for an error that the user's code raises.
    """
    if not names_code(name):
        return find_program(name).make(arguments, prefer=prefer)
    from distprove.stark.programs.binding import check_arguments

    make, values = load_class(name), {key: _number(value) for key, value in arguments.items()}
    try:
        inspect.signature(make).bind(**values)
    except TypeError as error:
        takes = ", ".join(inspect.signature(make).parameters) or "none"
        raise UsageError(f"{name} does not take these arguments: {error}; it takes {takes}") from None
    with own_faults(make.__module__):
        program = make(**values)
        check_arguments(program, lambda changed: make(**{**values, **changed}))
    return program


def _module_hint(name: str) -> str:
    """How a program in a module of this folder is named, where `name` is that module alone, or its file."""
    module = name.removesuffix(".py")
    here = module.isidentifier() and os.path.isfile(f"{module}.py")  # False for a name that no file can have
    return f"; {module}.py is in this folder: name its class, {module}:CLASS" if here else ""


def find_program(name: str) -> ProgramEntry:
    """Find the entry of the shipped program `name`. Raises UsageError."""
    if name not in PROGRAMS:
        hint = (
            nearest(name, PROGRAMS)
            or _module_hint(name)
            or f"; there are {', '.join(PROGRAMS)}, and your own as MODULE:CLASS"
        )
        raise UsageError(f"there is no program {name!r}{hint}")
    return PROGRAMS[name]


def load_class(path: str) -> Callable[..., Program]:
    """Import the Program subclass at "module:Class". Raises UsageError, CodeFault."""
    from distprove.stark.program import Program

    found = import_named(path)
    if not (isinstance(found, type) and issubclass(found, Program)):
        raise UsageError(f"{path} is not a class of distprove.stark.program.Program")
    require_methods(found, path)
    return found


def integer(name: str, value: int | str) -> int:
    """Parse an integer argument. Text may be a number or a power of two such as "2^20". Raises UsageError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    base, caret, exponent = str(value).strip().partition("^")
    digits = exponent if caret else base
    if digits.isdecimal() and len(digits) <= 20 and (not caret or (base == "2" and int(exponent) < 64)):
        return 1 << int(exponent) if caret else int(base)
    raise UsageError(f"{name} must be an integer, such as 1000 or 2^20, not {value!r}")


def log_rows(name: str, rows: int) -> int:
    """Return log2 of a number of rows, for programs of a user's own. Raises UsageError unless it is a power of two that
    a table can have."""
    if rows < 1 or rows & (rows - 1) or rows > 1 << MAX_LOG_HEIGHT:
        raise UsageError(f"{name} must be a power of two up to 2^{MAX_LOG_HEIGHT}, not {rows}")
    return rows.bit_length() - 1


def _number(value: int | str) -> int | str:
    """Parse an argument of a user's program: an integer if it looks like one, else the text."""
    try:
        return integer("", value)
    except UsageError:
        return value
