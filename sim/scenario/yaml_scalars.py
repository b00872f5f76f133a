"""What a plain YAML scalar means under the core schema of YAML 1.2.

Differs from YAML 1.1 (and PyYAML) where it bites: ``1e9`` is a number, ``no`` and ``on`` are text,
``010`` is ten, there are no dates and no sexagesimals.
"""

from __future__ import annotations

import re

LONGEST_NUMBER = 60  # characters; more is a mistake or an attack

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})


class NumberTooLong(ValueError):
    """A numeral of more than ``LONGEST_NUMBER`` characters."""


def resolve(text: str) -> str | int | float | bool | None:
    """Value of a plain (unquoted, untagged) scalar. Raises NumberTooLong."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] in "+-.0123456789":
        return _number(text)
    return text


def _number(text: str) -> str | int | float:
    if text in _NAN:
        return float("nan")
    if _INFINITY.fullmatch(text):
        return float("-inf" if text[0] == "-" else "inf")
    base = 8 if _OCTAL.fullmatch(text) else 16 if _HEXADECIMAL.fullmatch(text) else 0
    decimal = _DECIMAL.fullmatch(text)
    if not (base or decimal or _FLOAT.fullmatch(text)):
        return text
    if len(text) > LONGEST_NUMBER:
        raise NumberTooLong(f"a number of {len(text)} characters")
    if base:
        return int(text, base)
    return int(text) if decimal else float(text)
