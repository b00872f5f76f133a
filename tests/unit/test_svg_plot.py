"""Plots as text: every point is drawn where the axes say, and the file is well formed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from sim.report.svg_plot import Series, log_plot

SVG = "{http://www.w3.org/2000/svg}"


def drawn(**options: object) -> ET.Element:
    series = [
        Series("a & b", ((10.0, 10.0), (1000.0, 1000.0)), ((10.0, 10.0), (100.0, 100.0), (1000.0, 1000.0))),
        Series("c", ((100.0, 100.0),)),
    ]
    return ET.fromstring(log_plot("title <1>", "x", "y", series, **options))  # type: ignore[arg-type]


def test_equal_ratios_are_equal_distances() -> None:
    (line,) = drawn().iter(f"{SVG}polyline")
    low, middle, high = (tuple(map(int, point.split(","))) for point in line.attrib["points"].split())
    assert abs((middle[0] - low[0]) - (high[0] - middle[0])) <= 1
    assert abs((low[1] - middle[1]) - (middle[1] - high[1])) <= 1
    assert low[1] > high[1]  # larger is higher


def test_every_point_and_name_is_there() -> None:
    page = drawn()
    points = [dot for dot in page.iter(f"{SVG}circle") if dot.attrib["r"] == "3.5"]
    words = [text.text for text in page.iter(f"{SVG}text")]
    assert len(points) == 3
    assert {"a & b", "c", "x", "y", "title <1>"} <= set(words)


def test_named_ticks_and_the_diagonal() -> None:
    page = drawn(x_words={100.0: "a hundred"}, diagonal=True)
    assert "a hundred" in [text.text for text in page.iter(f"{SVG}text")]
    assert len(list(page.iter(f"{SVG}polyline"))) == 2


def test_dark_pages_have_colours_of_their_own() -> None:
    assert "prefers-color-scheme:dark" in log_plot("t", "x", "y", [Series("a", ((1.0, 1.0), (2.0, 2.0)))])


@pytest.mark.parametrize("points", [(), ((0.0, 1.0),), ((1.0, -1.0),)])
def test_nothing_to_draw_is_refused(points: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        log_plot("t", "x", "y", [Series("a", points)])
