"""Settings are said once, as fields of a dataclass: job files, the command line and docs/jobs.md follow from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pytest

from distprove.cli.option_groups import NEEDED, SettingsGroup
from distprove.cli.prove import Execution
from distprove.errors import UsageError
from distprove.filecoin.options import FilecoinOptions
from distprove.formats.plain_data import KINDS
from distprove.groth16.options import Groth16Options
from distprove.options import Setting, check_keys, keys_of, setting, settings_of
from distprove.settings import ExecutorSettings, settings_from
from distprove.stark.openvm.options import SwirlOptions
from distprove.stark.options import StarkOptions
from tests.support import ROOT

TABLES = {
    "How it is run": ExecutorSettings,
    "Groth16": Groth16Options,
    "A STARK": StarkOptions,
    "Filecoin": FilecoinOptions,
    "OpenVM's proofs": SwirlOptions,
}
"""The sections of docs/jobs.md and what their tables are of."""
HEAD = "| key | option | value | default | |\n|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Oven:
    """Settings of something that distprove has not."""

    recipe: Path = setting("what to bake", MISSING, flag="--recipe")
    trays: tuple[Path, ...] = setting("what goes in", (), flag="--tray")
    degrees: int = setting("how hot", 180, bounds=(50, 300), flag="--degrees")
    minutes: float = setting("how long", 30.0, bounds=(0, 600))
    room: int | None = setting("bytes of room", bounds=(1, 1 << 30), size=True, flag="--room")
    heat: str = setting("from where", "below", choices=("below", "above"), flag="--heat")
    notes: Mapping[str, str] = setting("of the cook", dict)


class OvenOptions(SettingsGroup):
    settings, panel = Oven, "The oven"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"memory": "lots"}, "memory: 'lots' is not a size"),
        ({"address": "10.0.0.1"}, "HOST:PORT of a Ray's head, or auto, not '10.0.0.1'"),
        ({"address": "http://10.0.0.1:8265"}, "ray job submit --address"),
    ],
)
def test_a_setting_that_is_of_no_use_is_told_by_its_name(table: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        settings_from(table)


def test_keys_of_a_job_file_follow_from_the_fields() -> None:
    assert keys_of(Oven) == {
        "recipe": (str,),
        "trays": (list, str),
        "degrees": (int,),
        "minutes": (int, float),
        "room": (int, str),
        "heat": (str,),
        "notes": (dict,),
    }
    check_keys({"recipe": "a", "trays": ["b"], "room": "1GiB", "minutes": 2}, keys_of(Oven), "oven.")
    for table, told in (
        ({"recipes": "a"}, "unknown key `oven.recipes`; did you mean `recipe`"),
        ({"degrees": True}, "`oven.degrees` must be an integer, not true or false"),
        ({"room": 1.5}, "`oven.room` must be an integer or a string, not a number"),
    ):
        with pytest.raises(UsageError, match=re.escape(told)):
            check_keys(table, keys_of(Oven), "oven.")


@pytest.mark.parametrize(
    ("name", "good", "bad", "told"),
    [
        ("degrees", (50, 300), (49, 301), "degrees must be at"),
        ("minutes", (0.1, 600), (0, 600.1, float("nan")), "minutes must be above 0 and at most 600"),
        ("heat", ("above",), ("abov",), "unknown heat 'abov'; did you mean `above`?; known: below, above"),
    ],
)
def test_bounds_and_choices_follow_from_the_fields(
    name: str, good: tuple[object, ...], bad: tuple[object, ...], told: str
) -> None:
    for value in good:
        settings_of(Oven)[name].check(name, value)
    for value in bad:
        with pytest.raises(UsageError, match=re.escape(told)):
            settings_of(Oven)[name].check(name, value)


def test_options_of_the_command_line_follow_from_the_fields() -> None:
    made = {p.name: (get_args(p.annotation), p.default) for p in OvenOptions.options()}
    assert {name: (kind, default) for name, ((kind, _), default) in made.items()} == {
        "recipe": (Path, NEEDED),
        "trays": (list[str] | None, None),
        "degrees": (int, 180),
        "room": (str | None, None),
        "heat": (str, "below"),
    }
    (_, said), _ = made["degrees"]
    assert (said.default, said.help, said.min, said.max) == ("--degrees", "How hot.", 50, 300)
    assert OvenOptions(recipe="r", degrees=200).values["degrees"] == 200


def test_settings_that_are_not_given_on_the_command_line_leave_the_jobs() -> None:
    assert set(Execution().given().values()) == {None}
    assert Execution(memory="2GiB", local=True).given() == {**Execution().given(), "memory": 2 << 30, "local": True}
    assert all(get_origin(option.annotation) is Annotated for option in Execution.options())


@pytest.mark.parametrize("title", TABLES)
def test_the_document_lists_every_setting(title: str) -> None:
    """Put what is expected into docs/jobs.md when a setting changes."""
    document = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    section = document.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    expected = HEAD + "".join(row(name, told) for name, told in settings_of(TABLES[title]).items())
    assert expected == section[section.index(HEAD) :][: len(expected)], expected


def row(name: str, told: Setting) -> str:
    flags = " ".join(f"`{flag}`" for flag in told.flag.split("/") if flag)
    return f"| `{name}` | {flags} | {values(told)} | {shown(told.default)} | {told.about} |\n"


def values(told: Setting) -> str:
    if told.size:
        return "a number of bytes, or a string such as `48GiB`"
    if told.choices:
        return ", ".join(f"`{choice}`" for choice in told.choices)
    kinds = " or ".join(KINDS[kind] for kind in told.kinds if float not in told.kinds or kind is float)
    kinds = kinds.replace("a string", '`"auto"`') if told.auto else kinds
    if told.bounds is None:
        return kinds
    least, most = told.bounds
    return f"{kinds}, {'above ' if float in told.kinds else ''}{least} to {most}"


def shown(default: object) -> str:
    if default is MISSING or isinstance(default, bool):
        return "" if default is MISSING else str(default).lower()
    return f"{default:g}" if isinstance(default, (int, float)) else str(default or "")
