"""The console that everything is printed on; apart from `console`, which takes no Rich until something is printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from distprove.visible import visible


class SafeConsole(Console):
    """A console that no text can get an escape sequence, a control or a bidirectional override through."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Text that is about to be laid out: escapes take their place in it."""
        return super().render_str(visible(text, keep="\n"), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All that is printed, whatever it was made of. What moves the cursor for Rich is not text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text, keep="\n"))
