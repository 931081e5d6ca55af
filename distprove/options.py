"""What settings are made of: fields that say what they are, tables of keys, lists of input files.

A proof system's own settings are its `Options`. They are read from a job file's table (`from_table`, paths relative to
the file) and from a run's job.json (`from_record`), with the same checks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from distprove.errors import InputError, UsageError, typed
from distprove.formats import jsontext
from distprove.formats.files import FILE, FOLDER, kind_at, require_file
from distprove.formats.names import name_after, natural_key, unique
from distprove.formats.nearest import nearest
from distprove.formats.patterns import Search
from distprove.formats.plain_data import KINDS
from distprove.formats.remote import check_url, fetch, is_url, name_of

MAX_PARTITIONS = 1 << 20
SECURITY_BITS = 128
"""Default proven security of a STARK in bits: what a prover reaches, and what a verifier requires."""

Keys = Mapping[str, tuple[type, ...]]
"""The kinds of values that each key of a table may have."""


@dataclass(frozen=True)
class InputFile:
    """An input file, or its content, and the name of the partition that is made from it."""

    name: str
    path: Path
    content: bytes | None = field(default=None, repr=False)
    """The content of an input that was given as a value and is in no file. It may be secret, and is in memory alone."""
    url: str | None = None
    """The URL that it is fetched from, by each node that reads it; it has no path then."""

    @property
    def is_here(self) -> bool:
        """Whether it is, or has to be, a file of this machine."""
        return self.content is None and self.url is None


@dataclass(frozen=True)
class Setting:
    """What a field of settings says of itself: the keys of job files, the options of the command line and the documents
    follow from it."""

    about: str
    bounds: tuple[int, int] | None = None
    """The least and the most of an integer. A float must be above the least."""
    choices: tuple[str, ...] = ()
    size: bool = False
    """Whether it is a number of bytes, which may be written like "48GiB"."""
    auto: bool = False
    """Whether "auto" may stand for the default in a job file."""
    flag: str = ""
    """The option of the command line; empty for none."""
    metavar: str | None = None
    suffix: str = ""
    """For a list of files: the end of the names of those that are taken from a folder."""
    values: bool = False
    """Whether tables may be in the place of files, each the content of a JSON file."""
    types: tuple[type, ...] = ()
    """The field's types without their parameters and without None; `settings_of` fills this and `default` in."""
    default: Any = None
    """The field's default; MISSING for none."""

    @property
    def kinds(self) -> tuple[type, ...]:
        """The kinds of values that may stand for it in a job file."""
        stand_in = {float: (int, float), Path: (str,), Mapping: (dict,), tuple: (list, str)}
        kinds = [kind for each in self.types for kind in stand_in.get(each, (each,))]
        return (*kinds, *((str,) if self.size or self.auto else ()))

    def check(self, name: str, value: Any) -> None:
        """Raise UsageError unless `value`, of the right type, is one that the setting may have."""
        if self.choices and value not in self.choices:
            raise UsageError(
                f"unknown {name} {value!r}{nearest(value, self.choices)}; known: {', '.join(self.choices)}"
            )
        if self.bounds is None:
            return
        least, most = self.bounds
        if float in self.kinds:
            if not least < value <= most:
                raise UsageError(f"{name} must be above {least} and at most {most}, not {value}")
        elif value < least:
            raise UsageError(f"{name} must be at least {least}, not {value}")
        elif value > most:
            raise UsageError(f"{name} must be at most {most}, not {value}")


def setting(about: str, default: Any = None, **said: Any) -> Any:
    """A field of settings with what it says of itself; `said` are fields of `Setting`. A default may be a factory, or
    MISSING where a value must be given."""
    metadata = {"setting": Setting(about, **said)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_of(owner: Any) -> Mapping[str, Setting]:
    """The settings of the dataclass `owner`, whose fields were made by `setting`, in order."""
    return _settings_of(owner)


@cache
def _settings_of(owner: Any) -> Mapping[str, Setting]:
    hints = get_type_hints(owner)
    defaults = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(owner)}
    said = {f.name: f.metadata["setting"] for f in fields(owner)}
    return {name: replace(told, types=_types(hints[name]), default=defaults[name]) for name, told in said.items()}


def _types(hint: Any) -> tuple[type, ...]:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(get_origin(part) or part for part in parts if part is not NoneType)


def keys_of(owner: Any) -> Keys:
    """The keys of a job file's table that is read into the dataclass `owner`."""
    return _keys_of(owner)


@cache
def _keys_of(owner: Any) -> Keys:
    return {name: told.kinds for name, told in settings_of(owner).items()}


def check_keys(table: Mapping[str, Any], known: Keys, prefix: str, own: str = "") -> None:
    """Raise UsageError unless every key of `table` is known and its value of a kind that is known for it. `own`: the
    key of a table within it whose keys are a program's own, if there is one."""
    for key, value in table.items():
        if key not in known:
            hint = nearest(key, known) or (f"; a program's own stand in the table `{own}`" if own else "")
            raise UsageError(f"unknown key `{prefix}{key}`{hint}; known: {', '.join(known)}")
        kinds = known[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(KINDS[kind] for kind in kinds)
            raise UsageError(f"`{prefix}{key}` must be {wanted}, not {KINDS.get(type(value), type(value).__name__)}")


Own = TypeVar("Own", bound="Options")


class Options:
    """What a job says to its proof system: the base of frozen dataclasses whose fields are made by `setting`.

    `code_field` is the only field that may name code of the user's own, as MODULE:NAME.
    """

    code_field: ClassVar[str] = "program"

    @property
    def likely_provers(self) -> int:
        """Provers that each GPU likely has for such a job. Their processes start while it is loaded."""
        return 1

    @classmethod
    def from_table(
        cls: type[Own],
        table: Mapping[str, Any],
        base: Path,
        left_out: list[str] | None = None,
        *,
        as_client: bool = False,
    ) -> Own:
        """Read a job file's table, with paths relative to `base`; see `expand` for `left_out`, and `check_as_client`.
        Raises UsageError, and InputError for bad files."""
        settings = settings_of(cls)
        for name, told in settings.items():
            if name not in table and told.default is MISSING:
                raise UsageError(f"no `{name}`: {told.about}")
        given = {n: told for n, told in settings.items() if n in table}
        made = cls(**{n: _read(n, told, table[n], base, left_out) for n, told in given.items()}).completed(base)
        made.check_as_client() if as_client else made.check()
        return made

    @classmethod
    def from_record(cls: type[Own], record: Mapping[str, Any]) -> Own:
        """Read job.json's options. One that came after the record was written has its default, if there is one. Raises
        KeyError or TypeError for a bad record, InputError for missing files."""
        settings = settings_of(cls)
        kinds = {n: (*told.kinds, *((NoneType,) if told.default is None else ())) for n, told in settings.items()}
        check_keys(record, kinds, "options.")
        given = {n: _recall(told, record[n]) for n, told in settings.items() if n in record}
        made = cls(**given).completed(Path())
        made.check()
        return made

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The files that are proven about, in order."""
        return ()

    @property
    def names(self) -> str:
        """The program or circuit that is named: one that ships, code of the user's own, or "" for none."""
        return getattr(self, self.code_field, None) or ""

    @property
    def names_all_files(self) -> bool:
        """Whether the job depends on nothing but these options and the files that they name. A user's code may read
        anything, which may change from job to job."""
        return True

    @classmethod
    def with_files(cls, table: Mapping[str, Any], named: Callable[[str], str]) -> dict[str, Any]:
        """A job file's table, whose keys are checked, with `named(text)` in place of each text that names files."""
        files = {name for name, told in settings_of(cls).items() if told.types in ((Path,), (tuple,))}
        return {name: _with_files(value, named) if name in files else value for name, value in table.items()}

    def keyed(self: Own) -> Own:
        """These options without the inputs that may change from job to job under one loaded key."""
        return self

    def completed(self: Own, base: Path) -> Own:
        """These options with what follows from several of them; paths are relative to `base`. Raises UsageError."""
        return self

    def check(self) -> None:
        """Raise UsageError for numbers out of range, InputError for files that do not exist."""
        for name, told in settings_of(type(self)).items():
            value = getattr(self, name)
            if value is not None:
                told.check(name, value)
            if isinstance(value, Path):
                require_file(name, value)

    def check_as_client(self) -> None:
        """As `check`, but for what imports code that computes, which a service checks for its clients."""
        self.check()


def _with_files(value: Any, named: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [named(each) if isinstance(each, str) else each for each in value]
    return named(value) if isinstance(value, str) else value


def _read(name: str, told: Setting, value: Any, base: Path, left_out: list[str] | None) -> Any:
    """A setting from the value in a job file."""
    if told.types == (Path,):
        return fetch(value).path if is_url(value) else base / value
    if told.auto and isinstance(value, str):
        if value != "auto":
            raise UsageError(f'`{name}` must be an integer or "auto", not {value!r}')
        return told.default
    if told.types != (tuple,):
        return value
    patterns = [value] if isinstance(value, str) else value
    if told.values and patterns and all(isinstance(pattern, dict) for pattern in patterns):
        return tuple(_given(f"input-{index}", value) for index, value in enumerate(patterns))
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f"{name} must be a list of strings{', or one of tables' if told.values else ''}")
    return expand(patterns, base, told.suffix, left_out)


def _given(name: str, value: Mapping[str, Any]) -> InputFile:
    """An input that was given as a value. No message quotes it."""
    try:
        return InputFile(name, Path(), jsontext.dumps(value))
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"{name}: not of strings, exact integers, lists and dicts, as a JSON file would be") from None


def _recall(told: Setting, value: Any) -> Any:
    """A setting from the value in a run's record."""
    if told.types == (Path,):
        return None if value is None else Path(value)
    if told.types != (tuple,):
        return value
    # A record from a file is JSON, which has no bytes: only who holds the contents in memory gives them.
    return tuple(map(_recalled, value))


def _recalled(item: Mapping[str, Any]) -> InputFile:
    content, url = item.get("content"), item.get("url")
    if isinstance(url, str):
        check_url(url)
        return InputFile(str(item["name"]), Path(), url=url)
    if not isinstance(content, bytes):
        content = None
        if not item["path"]:
            raise InputError(
                "its inputs were given as values and are kept nowhere; resume it from where they are given: "
                "distprove.prove(..., resume_existing=True)"
            )
    return InputFile(str(item["name"]), Path(item["path"]), content)


MOST_LEFT_OUT = 20
"""Names of a setting that are kept of what was left out; of the others the number."""


def expand(
    patterns: Iterable[str | Path], base: Path, suffix: str, left_out: list[str] | None = None
) -> tuple[InputFile, ...]:
    """Expand files, globs (`**` included), folders and URLs, which are not fetched yet, into named inputs, in order.

    Patterns keep their order; the files of one glob or folder are sorted naturally (`in2` before `in10`). A folder
    stands for its files that end in `suffix`. A name that several patterns match counts once; each of several links to
    one file is an input. Names follow `names.name_after`; files of equal name become `name`, `name-2`, ... in order,
    but the first one whose own name fits keeps it.

    What was met and is no input, a pipe or a file with another ending, is named in `left_out`. Raises InputError for a
    pattern that matches nothing, for a link to nothing, and where too much is to be looked at.
    """
    files: dict[tuple[str, ...], Path | str] = {}
    search = Search()
    for pattern in patterns:
        text = str(pattern)
        if is_url(text):
            check_url(text)
            files[(text,)] = text
            continue
        try:
            found = _matches(search, base / pattern, text, base, suffix)
            if len(found) > 1:
                found.sort(key=natural_key)
        except OSError as error:  # a name that no file can have, a folder that may not be read
            raise typed(error, pattern) from None
        except ValueError as error:
            raise InputError(f"{pattern}: {error}") from None
        for file in found:  # the way up from a link leads elsewhere than its name says
            way = os.path.abspath(file)
            files.setdefault((way, os.path.realpath(file)) if ".." in file.parts else (way,), file)
        if len(files) > MAX_PARTITIONS:
            raise InputError(f"{pattern}: a job has at most {MAX_PARTITIONS} inputs")
    if left_out is not None:
        left_out += search.left_out[:MOST_LEFT_OUT]
        if more := len(search.left_out[MOST_LEFT_OUT:]):
            left_out.append(f"{more} more")
    given = list(files.values())
    sources = [file if isinstance(file, Path) else Path(name_of(file)) for file in given]
    wanted = [name_after(source) for source in sources]
    by_right = [name == source.stem for name, source in zip(wanted, sources, strict=True)]
    return tuple(
        InputFile(name, file) if isinstance(file, Path) else InputFile(name, Path(), url=file)
        for name, file in zip(unique(wanted, by_right), given, strict=True)
    )


def _matches(search: Search, path: Path, pattern: str, base: Path, suffix: str) -> list[Path]:
    """The files that one pattern matches; `path` is the pattern as a path. Raises InputError and OSError."""
    kind = kind_at(path)
    if kind == FILE:
        return [path]
    if kind and kind != FOLDER:
        raise InputError(f"{pattern} is {kind}, not a file")
    found, others = list[Path](), len(search.left_out)
    for match in (path / entry.name for entry in search.entries(path)) if kind else search.matches(base, pattern):
        at = kind_at(match)
        if at == FILE and (not kind or match.suffix == suffix):
            found.append(match)
        elif at.startswith("a link") and (not kind or match.suffix == suffix):
            raise InputError(f"{match} is {at}: is what it leads to not mounted?")
        elif at:
            search.left_out.append(f"{match} ({at if at != FILE else f'does not end in {suffix}'})")
    if not found:
        met = f"; {', '.join(search.left_out[others:][:3])}" if search.left_out[others:] else ""
        raise InputError(f"{pattern}: {f'folder without {suffix} files' if kind else 'no file matches'}{met}")
    return found
