"""A shell script as words with their places. Nothing is run: what only a shell could evaluate stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LITERAL_DOLLAR = "\ue000"
"""Stands for a dollar sign that quotes or a backslash protect."""

_CONTINUED = re.compile(r"\\\r?\n")
_BREAKS = "\n;&|<>"
_ENDS = _BREAKS + "() \t\r"


@dataclass(frozen=True)
class Word:
    """``template`` is the text without its quotes, references to variables still in it; ``place`` its offset.

    ``inside`` is the span between the quotes of a word (or of an assignment's value) that is quoted as a
    whole, else None.
    """

    template: str
    place: int
    inside: tuple[int, int] | None = None


@dataclass(frozen=True)
class Mark:
    """A line end or an operator: ``(``, ``)`` or anything that ends a command."""

    text: str
    place: int


def scan(text: str, start: int = 0, end: int | None = None) -> Iterator[Word | Mark]:
    """Words and marks of ``text`` between two offsets, in order."""
    place, end = start, len(text) if end is None else end
    while place < end:
        continued = _CONTINUED.match(text, place, end)
        character = text[place]
        if continued:
            place = continued.end()
        elif character in " \t\r":
            place += 1
        elif character == "#":
            stop = text.find("\n", place, end)
            place = end if stop < 0 else stop
        elif character in "()" or character in _BREAKS:
            yield Mark(character, place)
            place += 1
        else:
            word, place = _word(text, place, end)
            yield word


def _word(text: str, start: int, end: int) -> tuple[Word, int]:
    parts: list[str] = []
    place = start
    inside: tuple[int, int] | None = None
    while place < end and text[place] not in _ENDS:
        character = text[place]
        if _CONTINUED.match(text, place, end):
            break
        if character == "\\":
            parts.append(text[place + 1 : place + 2].replace("$", LITERAL_DOLLAR))
            place += 2
        elif character in "'\"":
            stop = _quote_end(text, place, end)
            whole = not parts or parts[-1].endswith("=")
            inside = (place + 1, stop) if whole else None
            parts.append(_quoted(text[place + 1 : stop], character))
            place = stop + 1
        elif character in "$`":
            stop = _expression_end(text, place, end)
            parts.append(text[place:stop])
            place = stop
        else:
            parts.append(character)
            place += 1
    return Word("".join(parts), start, inside), max(place, start + 1)


def _quote_end(text: str, start: int, end: int) -> int:
    """Offset of the closing quote, or ``end`` for a quote that is never closed."""
    quote, place = text[start], start + 1
    while place < end and text[place] != quote:
        place += 2 if text[place] == "\\" and quote == '"' else 1
    return min(place, end)


def _quoted(inner: str, quote: str) -> str:
    if quote == "'":
        return inner.replace("$", LITERAL_DOLLAR)
    inner = _CONTINUED.sub("", inner).replace("\\$", LITERAL_DOLLAR)
    return re.sub(r"\\([\"\\`])", r"\1", inner)


def _expression_end(text: str, start: int, end: int) -> int:
    """End of ``$name``, ``${...}``, ``$(...)`` or a pair of backticks that begins at ``start``."""
    if text[start] == "`":
        stop = text.find("`", start + 1, end)
        return end if stop < 0 else stop + 1
    opening = text[start + 1 : start + 2]
    if opening not in ("{", "("):
        return start + 1
    closing, depth, place = {"{": "}", "(": ")"}[opening], 0, start + 1
    while place < end:
        depth += (text[place] == opening) - (text[place] == closing)
        place += 1
        if depth == 0:
            return place
    return end
