"""The pages of the site that are no files in docs: the reference of all commands, and the pages of the root folder.

mkdocs loads this module (`hooks` in mkdocs.yml); `python -m distprove.measure.site` prints the reference of commands.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any

from distprove.cli.app import SECTIONS, load
from distprove.measure.prose import ROOT, anchor

ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the root folder, and their places on the site."""
COMMANDS = "commands.md"
OWN_PROGRAMS = "MODULE:CLASS"
"""The command for programs of a user's own, whose options the program decides."""
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_OUTSIDE = re.compile(r"^(https?:|mailto:|#)")


def commands() -> str:
    """A page with every command: its usage, its help and its options, as `--help` has them."""
    parts = ["# Commands\n\nThis page is made from the code. `distprove COMMAND --help` prints the same.\n"]
    for title, entries in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in entries:
            parts += _command(load(name), ("distprove", name))
    return "\n".join(parts)


def _command(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    import typer

    context = typer.Context(command, info_name=" ".join(path))
    yield f"### {' '.join(path)}\n"
    yield f"{_paragraphs(command.help or '')}\n"
    if not hasattr(command, "list_commands"):
        yield f"```text\n{' '.join(command.get_usage(context).split())}\n```\n"
    shown = [each for each in command.get_params(context) if each.name != "help"]
    options = [_row(record) for each in shown if (record := each.get_help_record(context))]
    if options:
        yield "\n".join(["| option | meaning |", "|---|---|", *options]) + "\n"
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            if name != OWN_PROGRAMS:
                yield from _command(command.get_command(context, name), (*path, name))


def _row(record: tuple[str, str]) -> str:
    names, meaning = (" ".join(text.split()).replace("|", "\\|") for text in record)
    shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
    return f"| {shown} | {_plain(meaning)} |"


def _paragraphs(text: str) -> str:
    return "\n\n".join(_plain(" ".join(part.split())) for part in text.strip().split("\n\n"))


def _plain(text: str) -> str:
    """Text of a help, in which nothing but inline code is markup."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else _escaped(piece) for piece in pieces)


def _escaped(text: str) -> str:
    """Python's Markdown takes no backslash before `<`, so that is an entity."""
    return re.sub(r"([*_\[\]])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def placed(text: str, source: str, place: str) -> str:
    """A page at its place on the site. `source` is its path in the repository. Links to other pages lead to their
    places; links to other files lose their target, as the site does not have them."""

    def moved(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        if _OUTSIDE.match(target):
            return link[0]
        name, mark, part = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        there = ROOT_PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not there:
            return words
        return f"[{words}]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{mark}{part})"

    return _outside_code(text, lambda prose: _LINK.sub(moved, prose))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """`change` applied to a text without its fenced blocks."""
    pieces = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("```") else change(piece) for piece in pieces)


# -- the hooks that mkdocs calls ---------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Headings get the anchors that the repository's pages have."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda text, separator: anchor(text)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files in docs."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, COMMANDS, content=commands()))
    for source, place in ROOT_PAGES.items():
        text = placed((ROOT / source).read_text(encoding="utf-8"), source, place)
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links of a page in docs at the site."""
    place = page.file.src_uri
    if place == COMMANDS or place in ROOT_PAGES.values():
        return markdown
    return placed(markdown, f"docs/{place}", place)


if __name__ == "__main__":
    print(commands())
