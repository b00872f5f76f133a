"""A number as a tool printed it: its value, and how far rounding may have moved it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import inf

_LONGEST = 40
_MISSING = {"", "?", "-", "n/a", "na", "none", "..."}


@dataclass(frozen=True)
class Printed:
    """``value`` is zero or more; the exact figure lies within ``slack`` of it (half of the last digit)."""

    value: float
    slack: float

    @property
    def low(self) -> float:
        return max(0.0, self.value - self.slack)

    @property
    def high(self) -> float:
        return self.value + self.slack

    def over(self, other: Printed) -> tuple[float, float]:
        """The quotients that both roundings allow."""
        return (self.low / other.high if other.high else 0.0, self.high / other.low if other.low else inf)


def printed(text: str) -> Printed | None:
    """The number in ``text``; None for a blank, ``N/A`` or ``?``. Raises ``ValueError`` for anything else."""
    text = text.strip()
    if is_missing(text):
        return None
    try:
        number = Decimal(text) if len(text) <= _LONGEST else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number < 0 or abs(number.adjusted()) > 300:
        raise ValueError(f"{shown(text)} is not a number of zero or more")
    exponent = number.as_tuple().exponent
    return Printed(float(number), 0.5 * 10.0 ** int(exponent))


def is_missing(text: str) -> bool:
    """Whether ``text`` says that there is no figure, placeholders such as ``<joules>`` included."""
    text = text.strip().lower()
    return text in _MISSING or (text.startswith("<") and text.endswith(">"))


def shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
