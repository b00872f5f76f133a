from __future__ import annotations

import pytest

from sim.report.quantities import (
    GIBIBYTE,
    duration,
    percent,
    signed_percent,
    significant,
    size,
    size_range,
    teraflops,
    time_unit,
    tokens,
)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (1234567.0, "1,234,567"),
        (123.456, "123.5"),
        (9.87654, "9.877"),
        (9.99996, "10.00"),
        (0.0123456, "0.01235"),
        (-42.0, "-42.00"),
    ],
)
def test_significant(value: float, words: str) -> None:
    assert significant(value) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(346.67, "346.7 s"), (10.9912, "10.99 s"), (0.34567, "345.7 ms"), (13e-6, "13.00 µs"), (0.0, "0 µs")],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_table_takes_the_unit_of_its_longest_time() -> None:
    assert time_unit(2.0) == (1.0, "s")
    assert time_unit(0.02) == (1e-3, "ms")


@pytest.mark.parametrize(
    ("count", "words"),
    [(256 * 2**30, "256.0 GiB"), (3 * 2**39, "1.500 TiB"), (67_108_864, "64.00 MiB"), (0, "0 B")],
)
def test_size(count: float, words: str) -> None:
    assert size(count) == words


def test_ranges_that_read_the_same_are_one_figure() -> None:
    assert size_range((155.04 * GIBIBYTE, 163.96 * GIBIBYTE)) == "155.0–164.0 GiB"
    assert size_range((155.01 * GIBIBYTE, 155.02 * GIBIBYTE)) == "155.0 GiB"


def test_rates_and_shares() -> None:
    assert teraflops(1.3074e15) == "1,307 TFLOP/s"
    assert percent(0.4567) == "45.7 %"
    assert signed_percent(-0.031) == "-3.1 %"
    assert tokens(131072) == "131,072"
    assert tokens(16_777_216) == "16.78M"
