"""The programs that ship, found by name, and a user's own programs, found by MODULE:CLASS."""

from __future__ import annotations

from distprove.stark.programs.registry import PROGRAMS, Argument, ProgramEntry, find_program, load_program

__all__ = ["PROGRAMS", "Argument", "ProgramEntry", "find_program", "load_program"]
