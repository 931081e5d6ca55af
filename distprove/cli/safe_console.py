"""The console that everything is printed on. `console` imports it, and Rich, when something prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from distprove.formats.visible import INDENT, visible


class SafeConsole(Console):
    """A console that no text can get an escape sequence, a control or a bidirectional override through, and on which no
    text can choose what a line begins with."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Text that is about to be laid out: escapes take their place in it."""
        return super().render_str(visible(text, keep="\n"), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Lay out all that is printed, whatever it was made of. What moves the cursor for Rich is not text."""
        options = options or self.options
        if isinstance(renderable, str):
            renderable = self.render_str(renderable, highlight=options.highlight, markup=options.markup)
        if isinstance(renderable, Text) and not (renderable.no_wrap or options.no_wrap):
            renderable = _hanging(renderable, self, options)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text, keep="\n"))


def _hanging(text: Text, console: Console, options: ConsoleOptions) -> Text:
    """Break the lines of `text` to fit, indented after a break unless there is no room for that."""
    # A table whose other columns take all the room gives a column none, and Rich breaks no line into pieces of that.
    width, overflow = max(1, options.max_width), text.overflow or options.overflow
    lines: list[Text] = []
    for line in text.split(allow_blank=True):
        broken = line.wrap(console, width, overflow=overflow)
        if len(broken) > 1 and width > 2 * INDENT:
            broken = line.wrap(console, width - INDENT, overflow=overflow)
            for rest in broken[1:]:
                rest.pad_left(INDENT)
        lines += broken
    return text.blank_copy("\n").join(lines)
