"""A fact: value, unit, source, confidence."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCES = ("high", "medium", "low", "derived", "assumed")


@dataclass(frozen=True)
class Figure:
    """One sourced number, already in SI. ``text`` is the value as its author wrote it."""

    value: float
    text: str
    source: str
    confidence: str
    note: str = ""
