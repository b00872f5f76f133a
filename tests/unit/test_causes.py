"""The causes are told apart by eye, also by people with a colour vision deficiency."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from sim.causes import BY_KEY, CAUSES, COMMUNICATION, KEYS

Triple = tuple[float, float, float]

# Machado, Oliveira, Fernandes 2009, severity 1.0, for linear RGB.
DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def linear(colour: str) -> Triple:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return red, green, blue


def seen(colour: str, deficiency: str) -> Triple:
    rgb = linear(colour)
    red, green, blue = (
        max(0.0, min(1.0, sum(m * c for m, c in zip(row, rgb, strict=True))))
        for row in DEFICIENCIES[deficiency]
    )
    return red, green, blue


def oklab(rgb: Triple) -> Triple:
    """Björn Ottosson's perceptual space: a just noticeable difference is about 0.02."""
    r, g, b = rgb
    l, m, s = (  # noqa: E741
        (x * r + y * g + z * b) ** (1 / 3)
        for x, y, z in (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    )
    return (
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    )


def distance(one: str, other: str, deficiency: str) -> float:
    a, b = oklab(seen(one, deficiency)), oklab(seen(other, deficiency))
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_neighbours_in_a_stacked_bar_differ_clearly(deficiency: str) -> None:
    for one, other in pairwise(CAUSES):
        assert distance(one.colour, other.colour, deficiency) > 0.12, (one.key, other.key)


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_any_two_causes_differ(deficiency: str) -> None:
    for one, other in combinations(CAUSES, 2):
        assert distance(one.colour, other.colour, deficiency) > 0.045, (one.key, other.key)


def test_colours_show_on_dark_and_on_light_ground() -> None:
    for cause in CAUSES:
        lightness = oklab(linear(cause.colour))[0]
        assert 0.38 < lightness < 0.92, cause.key


def test_keys_are_unique_and_complete() -> None:
    assert len(set(KEYS)) == len(KEYS) == len(BY_KEY) == 17
    assert set(COMMUNICATION) < set(KEYS)
    assert all(cause.label and cause.description for cause in CAUSES)
