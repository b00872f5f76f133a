"""Quantities as people write them: ``400 Gbps``, ``192 GB``, ``1.3 PFLOP/s``. SI floats inside.

Prefixes and the difference between ``b`` (bit) and ``B`` (byte) are case-sensitive; a number without a
unit is an error wherever a unit is due. GB is 10^9 bytes, GiB 2^30.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

DIMENSIONS = ("bandwidth", "bytes", "flops", "frequency", "time", "power", "number")
"""What ``parse`` understands. A ``number`` has no unit: a count or a ratio."""

_QUANTITY = re.compile(
    r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*([^\W\d_].*?)?\s*"
)
_LONGEST = 64  # characters; no quantity needs more

_DECIMAL = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}

_EXAMPLES = {
    "bandwidth": "'400 Gbps' or '64 GB/s'",
    "bytes": "'192 GB' or '192 GiB'",
    "flops": "'1.3 PFLOP/s'",
    "frequency": "'2.1 GHz' or '2100 MHz'",
    "time": "'10 min', '1.5 s' or '5 us'",
    "power": "'750 W'",
    "number": "'0.75' or '304'",
}
_ARTICLES = {"bytes": "a size in bytes", "flops": "a FLOP rate", "power": "a power", "time": "a time"}

_TIME = {
    "ns": "1e-9", "us": "1e-6", "µs": "1e-6", "μs": "1e-6", "ms": "1e-3", "s": "1", "min": "60",
    "h": "3600", "hour": "3600", "hours": "3600", "d": "86400", "day": "86400", "days": "86400",
}  # fmt: skip

# The unit that format_quantity counts in, and the prefixes it may put before it, smallest first.
_DISPLAY = {
    "bandwidth": ("B/s", ("", "k", "M", "G", "T", "P")),
    "bytes": ("B", ("", "k", "M", "G", "T", "P")),
    "flops": ("FLOP/s", ("", "k", "M", "G", "T", "P", "E")),
    "frequency": ("Hz", ("", "k", "M", "G")),
    "power": ("W", ("m", "", "k", "M", "G")),
}
_DISPLAY_TIMES = ("ns", "us", "ms", "s", "h", "d")  # minutes are skipped: 90 s reads better than 1.5 min


class UnitError(ValueError):
    """A quantity that cannot be read; the message says what would be right."""


def parse(text: object, dimension: str) -> float:
    """``text`` as a float in SI: bytes/s, bytes, FLOP/s, Hz, s, W or a plain number.

    Raises ``UnitError`` for anything that is not a non-negative, finite quantity of that dimension.
    """
    units = _units(dimension)
    number, unit = _split(text, dimension)
    if unit not in units:
        raise UnitError(_unknown_unit(str(text).strip(), unit, dimension))
    try:
        value = float(Decimal(number) * units[unit])
    except ArithmeticError:
        value = float("inf")
    if not isfinite(value):
        raise UnitError(f"{_shown(text)} is too large for {_name(dimension)}")
    if value < 0:
        raise UnitError(f"{_shown(text)} is negative; {_name(dimension)} is zero or more")
    return value


def format_quantity(value: float, dimension: str, digits: int = 4) -> str:
    """``value`` (SI) with a fitting prefix and ``digits`` significant digits; ``parse`` reads it back."""
    if dimension not in DIMENSIONS:
        raise ValueError(f"unknown dimension {dimension!r}; known: {', '.join(DIMENSIONS)}")
    if dimension == "number":
        return f"{value:.{digits}g}"
    if dimension == "time":
        candidates = [(unit, float(_TIME[unit])) for unit in _DISPLAY_TIMES]
        start = "s"
    else:
        start, prefixes = _DISPLAY[dimension]
        candidates = [(prefix + start, _scale(prefix)) for prefix in prefixes]
    if value == 0:
        return f"0 {start}"
    unit, scale = next(((u, s) for u, s in reversed(candidates) if value >= s), candidates[0])
    return f"{value / scale:.{digits}g} {unit}"


def _scale(prefix: str) -> float:
    return 1e-3 if prefix == "m" else float(Decimal(10) ** _DECIMAL[prefix])


@cache
def _units(dimension: str) -> dict[str, Decimal]:
    """Every unit text of ``dimension`` and its factor to SI."""
    if dimension == "bandwidth":
        bits = _prefixed(("bps", "b/s", "bit/s", "bits/s"), Decimal("0.125"))
        return bits | _prefixed(("B/s", "Bps"), Decimal(1), binary=True)
    if dimension == "bytes":
        return _prefixed(("B",), Decimal(1), binary=True)
    if dimension == "flops":
        return _prefixed(("FLOP/s", "FLOPS", "FLOPs/s", "flop/s"), Decimal(1))
    if dimension == "frequency":
        return _prefixed(("Hz",), Decimal(1))
    if dimension == "power":
        return _prefixed(("W",), Decimal(1)) | {"mW": Decimal("0.001")}
    if dimension == "time":
        return {unit: Decimal(factor) for unit, factor in _TIME.items()}
    if dimension == "number":
        return {"": Decimal(1)}
    raise ValueError(f"unknown dimension {dimension!r}; known: {', '.join(DIMENSIONS)}")


def _prefixed(bases: Iterable[str], factor: Decimal, *, binary: bool = False) -> dict[str, Decimal]:
    powers = {prefix: Decimal(10) ** power for prefix, power in _DECIMAL.items()}
    if binary:
        powers |= {prefix: Decimal(2) ** power for prefix, power in _BINARY.items()}
    return {prefix + base: scale * factor for base in bases for prefix, scale in powers.items()}


def _split(text: object, dimension: str) -> tuple[str, str]:
    """The number and the unit of ``text``; a bare number where a unit is due ends here."""
    example = f"{_name(dimension)} is written like {_EXAMPLES[dimension]}"
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UnitError(f"{_shown(text)} is not a quantity; {example}")
    words = str(text)
    match = _QUANTITY.fullmatch(words) if len(words) <= _LONGEST else None
    if match is None:
        raise UnitError(f"{_shown(text)} is not a quantity; {example}")
    number, unit = match.group(1), match.group(2) or ""
    if not unit and dimension != "number":
        raise UnitError(f"{words.strip()} has no unit; {example}")
    return number, unit


def _unknown_unit(text: str, unit: str, dimension: str) -> str:
    right = f"{_name(dimension)} is written like {_EXAMPLES[dimension]}"
    if unit.endswith(("T/s", "Tps")):
        return (
            f"'{text}': transfers per second are no bandwidth until the width of the link is known; "
            f"multiply by it: {right}"
        )
    same = [known for known in _units(dimension) if known.lower() == unit.lower()]
    if same:
        return f"'{text}': unit {unit!r} is not known, capitals matter; did you mean {' or '.join(same)}?"
    others = [other for other in DIMENSIONS if other != dimension and unit and unit in _units(other)]
    if others:
        return f"'{text}' is {_name(others[0])}; here {right}"
    return f"'{text}': unit {unit!r} is not known; {right}"


def _name(dimension: str) -> str:
    return _ARTICLES.get(dimension, f"a {dimension}")


def _shown(text: object) -> str:
    """``text`` quoted and cut to a length that fits a message."""
    shown = repr(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
