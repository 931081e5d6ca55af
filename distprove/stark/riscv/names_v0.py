"""Names of functions under Rust's mangling v0, as they are shown.

The grammar is that of RFC 2603 and of the rustc book ("v0 Symbol Format"). A shown name has no hashes of crates, no
lifetimes and no crate that instantiated it. A symbol with a part that is not read here, such as a constant of a
structure, is shown as it is. A symbol comes from anyone's file: nesting, steps and length of a name are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PREFIX = "_R"

MAX_DEPTH = 64
MAX_STEPS = 4096
MAX_SHOWN = 1000
"""Characters of a shown part. Back references could make a short symbol exponentially long."""

_BASIC = {
    **{"a": "i8", "s": "i16", "l": "i32", "x": "i64", "n": "i128", "i": "isize", "b": "bool", "c": "char", "e": "str"},
    **{"h": "u8", "t": "u16", "m": "u32", "y": "u64", "o": "u128", "j": "usize", "f": "f32", "d": "f64"},
    **{"u": "()", "z": "!", "p": "_", "v": "..."},
}
_SIGNED, _UNSIGNED = "aslxni", "htmyoj"
_REFERENCES = {"R": "&", "Q": "&mut ", "P": "*const ", "O": "*mut "}
_SPECIAL = {"C": "closure", "S": "shim"}


def demangled(symbol: str) -> str | None:
    """The path that a symbol of mangling v0 stands for, or None for a symbol that is not read."""
    mangled, _, suffix = symbol.partition(".")
    if not mangled.startswith(PREFIX) or not mangled.isascii() or (suffix and not suffix.startswith("llvm.")):
        return None
    reader = _Reader(mangled[len(PREFIX) :])
    with suppress(_Unread):
        name = reader.path(in_value=True)
        if not reader.over():
            reader.path(in_value=False)  # the crate that instantiated it
        return name if reader.over() and name.isprintable() else None
    return None


class _Unread(Exception):
    """A symbol that does not follow the grammar, or is beyond the limits."""


class _Reader:
    """Reads the productions of the grammar, one method each. Each returns the text to show."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._depth = self._steps = 0

    def over(self) -> bool:
        """Whether nothing follows."""
        return self._at == len(self._text)

    def path(self, in_value: bool) -> str:
        """`in_value`: whether generic arguments follow after "::", as in an expression and not in a type."""
        with self._nested():
            match self._take():
                case "C":
                    return self._identifier()[1]
                case "N":
                    return self._bounded(self._member(in_value))
                case "M":
                    self._impl_path()
                    return self._bounded(f"<{self.type()}>")
                case "X":
                    self._impl_path()
                    return self._bounded(f"<{self.type()} as {self.path(in_value=False)}>")
                case "Y":
                    return self._bounded(f"<{self.type()} as {self.path(in_value=False)}>")
                case "I":
                    path = self.path(in_value)
                    arguments = ", ".join(filter(None, self._until_end(self._argument)))
                    shown = f"<{arguments}>" if arguments else ""
                    return self._bounded(f"{path}{'::' if in_value and shown else ''}{shown}")
                case "B":
                    return self._back(lambda: self.path(in_value))
        raise _Unread

    def type(self) -> str:
        with self._nested():
            first = self._take()
            if first in _BASIC:
                return _BASIC[first]
            if first in _REFERENCES:
                if first in "RQ" and self._next("L"):
                    self._number()
                return self._bounded(_REFERENCES[first] + self.type())
            match first:
                case "A":
                    return self._bounded(f"[{self.type()}; {self._constant()}]")
                case "S":
                    return self._bounded(f"[{self.type()}]")
                case "T":
                    parts = self._until_end(self.type)
                    return self._bounded(f"({', '.join(parts)}{',' if len(parts) == 1 else ''})")
                case "F":
                    return self._bounded(self._function())
                case "D":
                    self._binder()
                    traits = " + ".join(self._until_end(self._bound))
                    if not self._next("L"):
                        raise _Unread
                    self._number()
                    return self._bounded(f"dyn {traits}")
                case "B":
                    return self._back(self.type)
            self._at -= 1
            return self.path(in_value=False)

    def _member(self, in_value: bool) -> str:
        namespace = self._take()
        path = self.path(in_value)
        number, name = self._identifier()
        if namespace.islower():
            return f"{path}::{name}" if name else path
        if not namespace.isupper():
            raise _Unread
        kind = _SPECIAL.get(namespace, namespace)
        return f"{path}::{{{kind}{':' if name else ''}{name}#{number}}}"

    def _impl_path(self) -> None:
        """The place of an `impl`, which is not shown."""
        self._disambiguator()
        self.path(in_value=False)

    def _argument(self) -> str:
        """A generic argument; nothing for a lifetime."""
        if self._next("L"):
            self._number()
            return ""
        return self._constant() if self._next("K") else self.type()

    def _function(self) -> str:
        self._binder()
        safety = "unsafe " if self._next("U") else ""
        abi = ""
        if self._next("K"):
            abi = f'extern "{"C" if self._next("C") else self._plain().replace("_", "-")}" '
        arguments = ", ".join(self._until_end(self.type))
        result = self.type()
        return f"{safety}{abi}fn({arguments}){'' if result == '()' else f' -> {result}'}"

    def _bound(self) -> str:
        """A trait of a `dyn`, with its associated types among the generic arguments."""
        path, named = self.path(in_value=False), list[str]()
        while self._next("p"):
            named.append(f"{self._plain()} = {self.type()}")
        if not named:
            return path
        return f"{path[:-1]}, {', '.join(named)}>" if path.endswith(">") else f"{path}<{', '.join(named)}>"

    def _constant(self) -> str:
        with self._nested():
            kind = self._take()
            if kind == "p":
                return "_"
            if kind == "B":
                return self._back(self._constant)
            sign = "-" if kind in _SIGNED and self._next("n") else ""
            value = self._hexadecimal()
            if kind in _SIGNED or kind in _UNSIGNED:
                return f"{sign}{value}"
            if kind == "b" and value <= 1:
                return "true" if value else "false"
            if kind == "c" and value <= 0x10FFFF and chr(value).isprintable():
                return f"'{chr(value)}'"
        raise _Unread

    def _identifier(self) -> tuple[int, str]:
        """An identifier's disambiguator, which numbers closures, and its text."""
        return self._disambiguator(), self._plain()

    def _plain(self) -> str:
        """An identifier without a disambiguator; `u` marks Punycode, with `_` in place of its hyphen."""
        unicode = self._next("u")
        size = self._decimal()
        self._next("_")
        text, self._at = self._text[self._at : self._at + size], self._at + size
        if self._at > len(self._text):
            raise _Unread
        if not unicode:
            return text
        basic, _, coded = text.rpartition("_")
        try:
            return f"{basic}-{coded}".encode().decode("punycode") if basic else coded.encode().decode("punycode")
        except ValueError:
            raise _Unread from None

    def _disambiguator(self) -> int:
        return self._number() + 1 if self._next("s") else 0

    def _binder(self) -> None:
        if self._next("G"):
            self._number()

    def _number(self) -> int:
        """A number to the base of 62: `_` is 0, and others are less by 1 than they stand for."""
        value = 0
        for count in range(12):
            sign = self._take()
            if sign == "_":
                return value + 1 if count else 0
            value = 62 * value + _digit(sign)
        raise _Unread

    def _decimal(self) -> int:
        if self._next("0"):
            return 0
        begin = self._at
        while self._at < len(self._text) and self._text[self._at].isdigit() and self._at < begin + 5:
            self._at += 1
        if begin == self._at:
            raise _Unread
        return int(self._text[begin : self._at])

    def _hexadecimal(self) -> int:
        digits, _, _ = self._text[self._at : self._at + 33].partition("_")
        self._at += len(digits)
        if not self._next("_") or not set(digits) <= set("0123456789abcdef"):
            raise _Unread
        return int(digits or "0", 16)

    def _back(self, read: Callable[[], str]) -> str:
        """What stands at an earlier place of the symbol."""
        begin = self._at - 1
        place = self._number()
        if place >= begin:
            raise _Unread
        after, self._at = self._at, place
        shown = read()
        self._at = after
        return shown

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        """A list that ends with `E`."""
        parts = list[str]()
        while not self._next("E"):
            parts.append(read())
        return parts

    def _take(self) -> str:
        if self.over():
            raise _Unread
        self._at += 1
        return self._text[self._at - 1]

    def _next(self, sign: str) -> bool:
        """Whether `sign` is next. It is taken then."""
        found = self._text.startswith(sign, self._at)
        self._at += found
        return found

    def _bounded(self, shown: str) -> str:
        if len(shown) > MAX_SHOWN:
            raise _Unread
        return shown

    @contextmanager
    def _nested(self) -> Iterator[None]:
        self._depth, self._steps = self._depth + 1, self._steps + 1
        if self._depth > MAX_DEPTH or self._steps > MAX_STEPS:
            raise _Unread
        yield
        self._depth -= 1


def _digit(sign: str) -> int:
    for first, value in (("0", 0), ("a", 10), ("A", 36)):
        if ord(first) <= ord(sign) < ord(first) + (10 if value == 0 else 26):
            return value + ord(sign) - ord(first)
    raise _Unread
