"""Results as HTML, which notebooks show in place of a `repr`."""

from __future__ import annotations

import html
from collections.abc import Mapping

from distprove.formats.visible import bounded, visible


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """A table of names and values under a title. Values are shown as text: nothing in them is markup, and nothing acts
    on a page or turns its text around."""
    rows = "".join(f"<tr><th>{_shown(name)}</th><td>{_shown(value)}</td></tr>" for name, value in facts.items())
    return f"<table><caption>{_shown(title)}</caption>{rows}</table>"


def _shown(value: object) -> str:
    return html.escape(visible(bounded(str(value))))
