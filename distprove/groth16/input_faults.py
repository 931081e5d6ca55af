"""Faults of an input of a circom circuit: its names and sizes are compared with those of the circuit's signals.

A witness program holds hashes of the names of its input signals. It says how many values a name takes, and so whether a
name is an input. The names themselves are in the circuit's `.sym` file. Without that file, names close to a wrong one
are found by asking the program for them. Messages have names and sizes alone, never a value.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from distprove.errors import InputError
from distprove.groth16.inputs import Inputs, signals
from distprove.groth16.symbols import INDICES, InputSignal, input_signals
from kernels.host.units import count_of

_MAX_NAMED = 8
"""Signals of one kind of fault that a message names."""
_MAX_NEAR = 3
_MAX_GUESSED = 60
"""Characters of a name whose neighbours a program is asked for: there are 130 for each."""
_CHARACTERS = string.ascii_letters + string.digits + "_"

SizeOf = Callable[[str], int]
"""The number of values that a program takes for a name; 0 or less if the name is no input."""


@dataclass(frozen=True)
class InputFaults:
    """The faults of an input."""

    unknown: tuple[tuple[str, tuple[str, ...]], ...]
    """Names that are no inputs, each with names close to it that are."""
    sizes: tuple[tuple[str, int, int], ...]
    """Names whose number of values is wrong, with the number that the circuit takes and the given one."""
    missing: tuple[InputSignal, ...]
    """Input signals that are not given, as far as their names are known."""
    takes: int
    """Number of values that the circuit takes."""
    missing_values: int
    """Number of values of all signals that are not given."""
    shapes: Mapping[str, InputSignal]
    """The known input signals by their names."""

    @property
    def any(self) -> bool:
        return bool(self.unknown or self.sizes or self.missing_values)

    def __str__(self) -> str:
        """All faults in one line."""
        return "; ".join(self._texts())

    def _texts(self) -> Iterator[str]:
        for name, near in self.unknown[:_MAX_NAMED]:
            close = f" (is {' or '.join(map(repr, near))} meant?)" if near else ""
            yield f"{name!r} is not an input signal of the circuit{close}"
        yield from _more(len(self.unknown), "names are not input signals")
        for name, takes, given in self.sizes[:_MAX_NAMED]:
            shape = f", as {self.shapes[name]}" if name in self.shapes and self.shapes[name].shape else ""
            yield f"signal {name!r} takes {count_of(takes, 'value')}{shape}, {count_of(given, 'is', 'are')} given"
        yield from _more(len(self.sizes), "signals have another number of values")
        if not self.missing_values:
            return
        given = self.takes - self.missing_values + sum(given - takes for _, takes, given in self.sizes)
        yield f"the circuit takes {count_of(self.takes, 'input value')}, {count_of(given, 'is', 'are')} given"
        shown = self.missing[:_MAX_NAMED]
        rest = self.missing_values - sum(signal.size for signal in shown)
        if shown:
            yield f"missing: {', '.join(map(str, shown))}" + (
                f" and {count_of(rest, 'more value')}" if rest > 0 else ""
            )
        else:
            yield "the program has no names of what is missing; the circuit's .sym file beside it has (circom --sym)"


def _more(count: int, what: str) -> Iterator[str]:
    if count > _MAX_NAMED:
        yield f"{count - _MAX_NAMED} more {what}"


def faults_of(inputs: Inputs, size_of: SizeOf, n_inputs: int, symbols: Path | None) -> InputFaults:
    """Compare the names and sizes of an input with those of its circuit, which takes `n_inputs` values in all.

    `symbols` is the circuit's `.sym` file, if there is one. Raises FormatError or WitnessGenerationError for inputs
    that are malformed, as `signals` does.
    """
    given: dict[str, int] = {}
    for part in signals(inputs):
        given[part.signal] = given.get(part.signal, 0) + len(part.values)
    takes = {name: size_of(name) for name in given}
    known: list[InputSignal] = []
    if symbols is not None:
        with suppress(InputError):  # a file that is none costs names
            known = input_signals(symbols, size_of)
    missing = tuple(signal for signal in known if not given.keys() & _with_buses(signal.name))
    unknown = [name for name, size in takes.items() if size <= 0]
    candidates = [signal.name for signal in missing]
    return InputFaults(
        unknown=tuple((name, _near(name, candidates, size_of, given)) for name in unknown[:_MAX_NAMED])
        + tuple((name, ()) for name in unknown[_MAX_NAMED:]),
        sizes=tuple((name, size, given[name]) for name, size in takes.items() if 0 < size != given[name]),
        missing=missing,
        takes=n_inputs,
        missing_values=max(0, n_inputs - sum(size for size in takes.values() if size > 0)),
        shapes={signal.name: signal for signal in known},
    )


def _with_buses(name: str) -> set[str]:
    """The name of a signal, and those of the buses that it is in. A program takes the values of a bus in a row too."""
    parts = name.split(".")
    buses = {".".join(parts[:count]) for count in range(1, len(parts))}
    return {name, *buses, *(INDICES.sub("", bus) for bus in buses)}


def _near(name: str, candidates: Sequence[str], size_of: SizeOf, given: Mapping[str, int]) -> tuple[str, ...]:
    """Inputs that are not given and whose names are close to `name`: of the candidates, or else as the program says."""
    if candidates:
        plain = {_plain(each): each for each in reversed(candidates)}
        close = [plain[each] for each in get_close_matches(_plain(name), plain, _MAX_NEAR)]
        return tuple(close or get_close_matches(name, candidates, _MAX_NEAR))
    found: list[str] = []
    for guess in _neighbours(name) if len(name) <= _MAX_GUESSED else ():
        if guess not in given and guess not in found and size_of(guess) > 0:
            found.append(guess)
            if len(found) == _MAX_NEAR:
                break
    return tuple(found)


def _plain(name: str) -> str:
    """A name without what its spelling leaves open: `pathIndices` and `path_indices` are alike."""
    return name.replace("_", "").lower()


def _neighbours(name: str) -> Iterator[str]:
    """Other spellings of a name, then all names that differ from it in one character."""
    words = name.split("_")
    yield words[0] + "".join(word[:1].upper() + word[1:] for word in words[1:])
    yield "".join(f"_{c.lower()}" if c.isupper() and at else c for at, c in enumerate(name))
    yield from (name.lower(), name.upper(), name[:1].lower() + name[1:], name[:1].upper() + name[1:])
    yield from (name + "s", name + "es", name.removesuffix("s"), name.removesuffix("es"), f"in_{name}", f"{name}_in")
    for at in range(len(name) + 1):
        before, after = name[:at], name[at:]
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
        for character in _CHARACTERS:
            yield before + character + after
            yield before + character + after[1:]
