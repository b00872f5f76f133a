"""Static SVG plots with logarithmic axes, readable on light and on dark pages.

Coordinates are whole pixels, so that the same figures give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 50  # margins; the legend stands in the right one
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999", "#222255", "#ee9933")
STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-size:15px}.grid{stroke:#ddd}.axis{stroke:#666;fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.axis{stroke:#999}}"
)

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """Measured ``points`` (dots) and a predicted ``line``, in one colour. Either may be empty."""

    name: str
    points: tuple[Point, ...] = ()
    line: tuple[Point, ...] = ()


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: int  # pixel of low
    end: int

    @staticmethod
    def of(values: Iterable[float], start: int, end: int) -> _Axis:
        """Covers all values with a little air on both sides."""
        known = list(values)
        return _Axis(min(known) / 1.15, max(known) * 1.15, start, end)

    def pixel(self, value: float) -> int:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start))

    def ticks(self, base: int) -> list[float]:
        """Powers of ``base`` in range, thinned to at most nine; 1, 2 and 5 times powers of ten on short axes."""
        first = math.ceil(math.log(self.low, base) - 1e-9)
        last = math.floor(math.log(self.high, base) + 1e-9)
        powers = [float(base) ** exponent for exponent in range(first, last + 1)]
        if base == 10 and len(powers) < 3:
            wide = [m * 10.0**e for e in range(first - 1, last + 1) for m in (1, 2, 5)]
            return [tick for tick in wide if self.low <= tick <= self.high]
        return powers[:: max(1, math.ceil(len(powers) / 9))]


def log_plot(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    x_base: int = 10,
    x_words: dict[float, str] | None = None,
    diagonal: bool = False,
) -> str:
    """An SVG of ``series`` on log-log axes. ``x_words`` names tick values; ``diagonal`` draws y = x.

    Raises ``ValueError`` when there is nothing to draw or a value is not above zero.
    """
    drawn = [point for one in series for point in (*one.points, *one.line)]
    if not drawn or any(x <= 0 or y <= 0 for x, y in drawn):
        raise ValueError("a plot with logarithmic axes needs points, and all of them above zero")
    xs, ys = [x for x, _ in drawn], [y for _, y in drawn]
    if diagonal:
        xs = ys = xs + ys
    x_axis = _Axis.of(xs, LEFT, WIDTH - RIGHT)
    y_axis = _Axis.of(ys, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="22">{escape(title)}</text>',
        *_grid(x_axis, y_axis, x_base, x_words or {}),
        *_labels(x_label, y_label),
    ]
    if diagonal:
        ends = (y_axis.low, y_axis.high)
        parts.append(_polyline([(x_axis.pixel(v), y_axis.pixel(v)) for v in ends], 'class="axis"'))
    for index, one in enumerate(series):
        parts += _draw(one, COLOURS[index % len(COLOURS)], x_axis, y_axis)
        parts += _legend(one, COLOURS[index % len(COLOURS)], index)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(x_axis: _Axis, y_axis: _Axis, x_base: int, x_words: dict[float, str]) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in sorted(x_words) if x_words else x_axis.ticks(x_base):
        x = x_axis.pixel(tick)
        parts.append(f'<line class="grid" x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}"/>')
        words = escape(x_words.get(tick, f"{tick:g}"))
        parts.append(f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{words}</text>')
    for tick in y_axis.ticks(10):
        y = y_axis.pixel(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    frame = f'x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}"'
    return [*parts, f'<rect class="axis" {frame}/>']


def _labels(x_label: str, y_label: str) -> list[str]:
    middle_x, middle_y = (LEFT + WIDTH - RIGHT) // 2, (TOP + HEIGHT - BOTTOM) // 2
    turned = f'text-anchor="middle" transform="rotate(-90 16 {middle_y})"'
    return [
        f'<text x="{middle_x}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="16" y="{middle_y}" {turned}>{escape(y_label)}</text>',
    ]


def _draw(one: Series, colour: str, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    parts = []
    if one.line:
        pixels = [(x_axis.pixel(x), y_axis.pixel(y)) for x, y in one.line]
        parts.append(_polyline(pixels, f'fill="none" stroke="{colour}" stroke-width="2"'))
    for x, y in one.points:
        parts.append(f'<circle cx="{x_axis.pixel(x)}" cy="{y_axis.pixel(y)}" r="3.5" fill="{colour}"/>')
    return parts


def _legend(one: Series, colour: str, index: int) -> list[str]:
    x, y = WIDTH - RIGHT + 14, TOP + 10 + 20 * index
    return [
        f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>',
        f'<text x="{x + 10}" y="{y + 4}">{escape(one.name)}</text>',
    ]


def _polyline(pixels: Sequence[tuple[int, int]], style: str) -> str:
    points = " ".join(f"{x},{y}" for x, y in pixels)
    return f'<polyline {style} points="{points}"/>'
