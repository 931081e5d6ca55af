"""Parts that the pages share: document, style, tables. All text is escaped here or by the caller."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence
from importlib import resources

from distprove.formats.visible import visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""The page may load nothing and run nothing, whatever a name in it may hold."""

STAGES = ("load", "check", "synthesise", "commit", "prove", "verify", "diagnose")
"""Stages that the style sheet has a colour for."""
COLOURS = 8
"""Colours of lines in the style sheet."""


def escape(text: str) -> str:
    """Text from anywhere, as HTML: no markup, and nothing that turns the direction of what stands beside it."""
    return html.escape(visible(text, keep="\n"))


def document(title: str, body: Iterable[str]) -> str:
    """A whole page. `body` is HTML."""
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def cards(facts: Iterable[tuple[str, str]]) -> str:
    """(name, value) pairs, large."""
    items = "".join(f"<div><small>{escape(name)}</small><b>{escape(value)}</b></div>" for name, value in facts)
    return f'<div class="cards">{items}</div>'


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    best: int = -1,
    doubtful: Collection[tuple[int, int]] = (),
) -> str:
    """A table of plain text. `numbers` are the columns that hold some, `best` the row that stands out, and `doubtful`
    the cells, by row and column, that warn."""

    def cell(tag: str, column: int, text: str, warns: bool = False) -> str:
        classes = " ".join(("n",) * (column in numbers) + ("warn",) * warns)
        return f"<{tag} class='{classes}'>{escape(text)}</{tag}>" if classes else f"<{tag}>{escape(text)}</{tag}>"

    top = "".join(cell("th", i, text) for i, text in enumerate(head))
    body = "".join(
        f"<tr{' class=best' if place == best else ''}>"
        + "".join(cell("td", i, text, (place, i) in doubtful) for i, text in enumerate(row))
        + "</tr>"
        for place, row in enumerate(rows)
    )
    return f'<div class="table"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def bars(head: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]) -> str:
    """A table whose rows end in a bar, of a length from 0 to 1. All columns but the first hold numbers."""
    top = "".join(f"<th{' class=n' if i else ''}>{escape(text)}</th>" for i, text in enumerate(head))
    body = []
    for cells, length in rows:
        texts = "".join(f"<td{' class=n' if i else ''}>{escape(text)}</td>" for i, text in enumerate(cells))
        width = f"{100 * min(1.0, max(0.0, length)):.1f}"
        body.append(f'<tr>{texts}<td class="wide"><span class="bar" style="width:{width}%"></span></td></tr>')
    return (
        f'<div class="table"><table><thead><tr>{top}<th></th></tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def chart(svg: str) -> str:
    return f'<div class="chart">{svg}</div>'


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def folded(summary: str, content: str, *, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>{content}</details>"
