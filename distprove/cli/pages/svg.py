"""Charts as inline SVG: axes, lines and bars, coloured by the page's style sheet. All text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distprove.cli.pages.html import escape

WIDTH = 1120
"""Units across; a page scales a chart to its column, and lets it scroll where that is too narrow to be read."""
LEFT = 150
RIGHT = 14
AXIS = 22
"""Height of a line of axis labels."""


@dataclass(frozen=True)
class Scale:
    """Maps values between `low` and `high` to coordinates between `start` and `end`, linearly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        extent = self.high - self.low
        return self.start + (self.end - self.start) * ((value - self.low) / extent if extent else 0.0)

    def ticks(self, most: int = 8, unit: float = 1.0) -> list[float]:
        """Round values inside the scale, at most about `most`; multiples of powers of ten of `unit`."""
        extent = self.high - self.low
        if extent <= 0:
            return [self.low]
        rough = extent / most
        power = unit * 10.0 ** math.floor(math.log10(rough / unit))
        step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(index * step, 12) for index in range(first, last + 1)]


@dataclass
class Drawing:
    """Elements of one SVG. Coordinates in its units, y downwards; classes are the style sheet's."""

    width: float
    height: float
    label: str
    """Description of the chart for screen readers."""
    _parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, cls: str, title: str = "") -> None:
        shape = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0.0))}" height="{_n(height)}" class="{cls}"'
        self._parts.append(f"<rect {shape}><title>{escape(title)}</title></rect>" if title else f"<rect {shape}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, cls: str, title: str = "") -> None:
        shape = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" class="{cls}"'
        self._parts.append(f"<line {shape}><title>{escape(title)}</title></line>" if title else f"<line {shape}/>")

    def path(self, points: Sequence[tuple[float, float]], cls: str) -> None:
        if points:
            steps = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
            self._parts.append(f'<path d="M{steps}" class="{cls}"/>')

    def dot(self, x: float, y: float, cls: str, title: str) -> None:
        shape = f'cx="{_n(x)}" cy="{_n(y)}" r="4" class="{cls}"'
        self._parts.append(f"<circle {shape}><title>{escape(title)}</title></circle>")

    def text(self, x: float, y: float, text: str, cls: str = "", *, anchor: str = "start", title: str = "") -> None:
        inner = escape(text) + (f"<title>{escape(title)}</title>" if title else "")
        self._parts.append(f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" class="{cls}">{inner}</text>')

    def render(self) -> str:
        size = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}"'
        return f'<svg {size} role="img" aria-label="{escape(self.label)}">{"".join(self._parts)}</svg>'


@dataclass(frozen=True)
class Series:
    """A named line: points in the order of x, drawn in colour number `colour` of the style sheet."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    stepped: bool = False
    """Whether a value holds until the next point."""
    dots: bool = False
    ranges: Sequence[tuple[float, float]] = ()
    """The least and the most at each point, drawn as a stroke through it."""


def line_chart(
    label: str,
    series: Sequence[Series],
    x: tuple[float, float],
    *,
    x_format: Callable[[float], str],
    y_format: Callable[[float], str],
    x_ticks: Sequence[float] | None = None,
    y_most: float = 0.0,
    binary: bool = False,
    whole: bool = False,
    height: float = 170,
    width: float = WIDTH,
) -> str:
    """Lines over a common axis from 0 to the largest value, or to `y_most` where that is more. With `whole` only whole
    numbers are marked."""
    values = [y for line in series for _, y in (*line.points, *line.ranges)]
    most = max([y_most, *values], default=0.0) or 1.0
    left = min(LEFT, 84.0)
    along = Scale(x[0], x[1], left, width - RIGHT)
    up = Scale(0.0, most * 1.05, height - AXIS, 8.0)
    drawing = Drawing(width, height, label)
    # Bytes are told in powers of 1024, and round there.
    unit = 1024.0 ** int(math.log(most, 1024)) if binary and most >= 1 else 1.0
    for value in up.ticks(5, unit):
        if whole and value % 1:
            continue
        drawing.line(left, up(value), width - RIGHT, up(value), "grid")
        drawing.text(left - 6, up(value) + 4, y_format(value), "axis", anchor="end")
    for value in along.ticks() if x_ticks is None else x_ticks:
        drawing.text(along(value), height - 6, x_format(value), "axis", anchor=_anchor(along, value))
    drawing.line(left, up(0), width - RIGHT, up(0), "base")
    for line in series:
        points = thinned([(along(px), up(py)) for px, py in line.points])
        drawing.path(_stairs(points, along(x[1])) if line.stepped else points, f"series s{line.colour}")
        for (px, _), (least, top) in zip(line.points, line.ranges, strict=False):
            drawing.line(along(px), up(least), along(px), up(top), f"series s{line.colour}")
        if line.dots:
            for px, py in line.points:
                note = f"{line.name}: {x_format(px)}, {y_format(py)}"
                drawing.dot(along(px), up(py), f"dot s{line.colour}", note)
    return drawing.render()


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """(class of the swatch, name) pairs."""
    items = "".join(f'<span class="key"><i class="{cls}"></i>{escape(name)}</span>' for cls, name in entries)
    return f'<p class="legend">{items}</p>'


def time_axis(drawing: Drawing, along: Scale, bottom: float, form: Callable[[float], str]) -> None:
    """Vertical lines from the top to `bottom` with their times below."""
    for value in along.ticks(10):
        drawing.line(along(value), 0, along(value), bottom, "grid")
        drawing.text(along(value), bottom + AXIS - 8, form(value), "axis", anchor=_anchor(along, value))


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Thin out points: of those in one unit of x the first, lowest, highest and last remain."""
    if len(points) <= WIDTH:
        return list(points)
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(point[0]), []).append(point)
    kept = []
    for column in columns.values():
        marks = {0, len(column) - 1}
        marks.add(min(range(len(column)), key=lambda i: column[i][1]))
        marks.add(max(range(len(column)), key=lambda i: column[i][1]))
        kept += [column[i] for i in sorted(marks)]
    return kept


def _stairs(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    stairs: list[tuple[float, float]] = []
    for x, y in points:
        if stairs:
            stairs.append((x, stairs[-1][1]))
        stairs.append((x, y))
    return [*stairs, (end, stairs[-1][1])] if stairs else []


def _anchor(along: Scale, value: float) -> str:
    """The alignment of the label at `value`, by which the first and last labels stay inside the chart."""
    if along(value) > along.end - 24:
        return "end"
    return "start" if along(value) < along.start + 8 else "middle"


def _n(value: float) -> str:
    """A coordinate, as short as a hundredth allows."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
