"""Units: what is read, what is refused, and that refusals teach."""

from __future__ import annotations

import pytest

from hwmodels.units import UnitError, format_quantity, parse


@pytest.mark.parametrize(
    ("text", "dimension", "si"),
    [
        ("400 Gbps", "bandwidth", 50e9),
        ("400 Gb/s", "bandwidth", 50e9),
        ("400 Gbit/s", "bandwidth", 50e9),
        ("400Gbps", "bandwidth", 50e9),
        ("64 GB/s", "bandwidth", 64e9),
        ("64 GiB/s", "bandwidth", 64 * 2**30),
        ("5.3 TB/s", "bandwidth", 5.3e12),
        ("192 GB", "bytes", 192e9),
        ("192 GiB", "bytes", 192 * 2**30),
        ("4 MiB", "bytes", 4 * 2**20),
        ("30 B", "bytes", 30.0),
        ("1.3 PFLOP/s", "flops", 1.3e15),
        ("708 TFLOP/s", "flops", 708e12),
        ("708 TFLOPS", "flops", 708e12),
        ("2.1 GHz", "frequency", 2.1e9),
        ("2100 MHz", "frequency", 2.1e9),
        ("10 min", "time", 600.0),
        ("5 us", "time", 5e-6),
        ("5 µs", "time", 5e-6),
        ("1.5e-3 s", "time", 1.5e-3),
        ("2 h", "time", 7200.0),
        ("750 W", "power", 750.0),
        ("20 MW", "power", 20e6),
        ("0.755", "number", 0.755),
        (304, "number", 304.0),
    ],
)
def test_reads_to_si_exactly(text: object, dimension: str, si: float) -> None:
    assert parse(text, dimension) == si


@pytest.mark.parametrize(
    ("text", "dimension", "taught"),
    [
        (64, "bandwidth", "has no unit; a bandwidth is written like '400 Gbps'"),
        ("192", "bytes", "has no unit"),
        ("12 GT/s", "bandwidth", "transfers per second"),
        ("400 gbps", "bandwidth", "capitals matter"),
        ("400 GBPS", "bandwidth", "Gbps"),
        ("400 Gbps", "bytes", "is a bandwidth; here a size in bytes"),
        ("192 GB", "bandwidth", "is a size in bytes"),
        ("1.3 PFLOP", "flops", "unit 'PFLOP' is not known"),
        ("750 W", "time", "is a power"),
        ("-5 s", "time", "negative"),
        ("1e400 s", "time", "too large"),
        ("1e999 GB", "bytes", "too large"),
        ("nan s", "time", "not a quantity"),
        ("", "power", "not a quantity"),
        ("GB", "bytes", "not a quantity"),
        ("1,000 W", "power", "not a quantity"),
        (True, "number", "not a quantity"),
        (None, "bytes", "not a quantity"),
        ([1], "bytes", "not a quantity"),
        (float("nan"), "number", "not a quantity"),
        ("0.5 s", "number", "is a time"),
        ("1" * 100 + " W", "power", "not a quantity"),
        ("1e9999999999 W", "power", "is not known"),
        ("٣ W", "power", "not a quantity"),
    ],
)
def test_refusals_say_what_is_right(text: object, dimension: str, taught: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text, dimension)
    assert taught in str(caught.value)
    assert len(str(caught.value)) < 250


def test_bits_and_bytes_differ_by_eight() -> None:
    assert parse("8 Gb/s", "bandwidth") == parse("1 GB/s", "bandwidth")


def test_an_unknown_dimension_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="known: bandwidth"):
        parse("1 kg", "mass")
    with pytest.raises(ValueError, match="known: bandwidth"):
        format_quantity(1.0, "mass")


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (50e9, "bandwidth", "50 GB/s"),
        (1.307e15, "flops", "1.307 PFLOP/s"),
        (206141652992.0, "bytes", "206.1 GB"),
        (2.1e9, "frequency", "2.1 GHz"),
        (13e-6, "time", "13 us"),
        (90.0, "time", "90 s"),
        (7200.0, "time", "2 h"),
        (750.0, "power", "750 W"),
        (0.0, "bytes", "0 B"),
        (0.755, "number", "0.755"),
    ],
)
def test_display(value: float, dimension: str, text: str) -> None:
    assert format_quantity(value, dimension) == text
