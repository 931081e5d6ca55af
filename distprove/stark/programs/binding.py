"""Checks that the arguments in a program's key bind something; that a key mentions an argument proves nothing alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distprove.errors import UsageError
from distprove.stark.program import Program


def check_arguments(program: Program, remake: Callable[[dict[str, int | str]], Program]) -> None:
    """Raise UsageError for an argument of `program` whose change leaves all of its key but the arguments unchanged.

    `remake` makes the program with some arguments changed. Each argument is changed to a few other values; if the
    program accepts none of them, nothing can be told, and the argument passes.
    """
    for name, value in program.arguments.items():
        # Neighbouring values come first, because the program with a larger argument may be much larger.
        others = (value + 1, value - 1, value // 2, 2 * value) if isinstance(value, int) else (f"{value}x", "")
        same = []
        for other in others:
            if other == value or False in same:
                continue
            try:
                same.append(binds_the_same(program, remake({name: other})))
            except Exception:  # whatever a constructor raises, it does not take this value
                continue
        if same and all(same):
            raise UsageError(
                f"program {program.name}: another {name} changes no table, fixed height, preprocessed column or "
                "statement. Bind it (Program.fixed_heights, a public value), or leave it out of Program.arguments"
            )


def binds_the_same(a: Program, b: Program) -> bool:
    """Whether the keys of two programs under the same parameters are equal except for the arguments in them."""
    if (a.statement, a.fixed_heights, set(a.optional)) != (b.statement, b.fixed_heights, set(b.optional)):
        return False
    if tuple(a.buses) != tuple(b.buses):
        return False
    fixed, other = a.preprocessed(), b.preprocessed()
    if fixed.keys() != other.keys() or not all(np.array_equal(fixed[name], other[name]) for name in fixed):
        return False
    return [t.to_record() for t in a.compiled_tables] == [t.to_record() for t in b.compiled_tables]
