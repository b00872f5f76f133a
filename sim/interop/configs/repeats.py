"""Megatron's two little languages for layers: ``([0]*3+[1]*58)`` and ``Et*3|(tt|)*29,m|L``. Parsed, never evaluated."""

from __future__ import annotations

import re

MOST = 10_000  # layers, or characters of a layout
_TERM = re.compile(r"\[\s*([01](?:\s*,\s*[01])*)\s*\]\s*(?:\*\s*(\d{1,5}))?\s*")
_GROUP = re.compile(r"\(([^()]*)\)\*(\d{1,5})")
_REPEATED = re.compile(r"([Etm L])\*(\d{1,5})")


class LayerPatternError(ValueError):
    """A pattern that is not of its language; the text says what is wrong."""


def layer_pattern(text: str) -> tuple[int, ...]:
    """``([0]*3+[1]*58)`` as 3 zeros and 58 ones."""
    rest = text.strip()
    if rest.startswith("(") and rest.endswith(")"):
        rest = rest[1:-1].strip()
    found: list[int] = []
    while rest:
        term = _TERM.match(rest)
        if term is None:
            raise LayerPatternError("a sum of lists of 0 and 1 such as ([0]*3+[1]*58) is due here")
        found += [int(digit) for digit in re.findall(r"[01]", term[1])] * int(term[2] or 1)
        rest = rest[term.end() :]
        if len(found) > MOST:
            raise LayerPatternError(f"more than {MOST:,} layers")
        if rest:
            if not rest.startswith("+") or not rest[1:].strip():
                raise LayerPatternError("terms are joined by +")
            rest = rest[1:].strip()
    return tuple(found)


def stage_layers(text: str) -> tuple[tuple[int, ...], bool]:
    """Decoder layers of each part of a pipeline layout, and whether further-token layers stand where ours do.

    Ours: on the last part that holds the output layer.
    """
    plain = _expanded(text.replace(",", "").replace(" ", ""))
    unknown = set(plain) - set("EtmL|")
    if unknown:
        raise LayerPatternError(f"{min(unknown)!r}: a layout is made of E, t, m, L and |")
    parts = plain.split("|")
    if plain.count("E") != 1 or plain.count("L") != 1 or "E" not in parts[0] or "L" not in parts[-1]:
        raise LayerPatternError("E belongs to the first part and L to the last")
    return tuple(part.count("t") for part in parts), all("m" not in part for part in parts[:-1])


def _expanded(text: str) -> str:
    while (group := _GROUP.search(text)) is not None:
        repeated = _times(_single(group[1]), int(group[2]))
        text = _short(text[: group.start()] + repeated + text[group.end() :])
    return _single(text)


def _single(text: str) -> str:
    return _short(_REPEATED.sub(lambda match: _times(match[1], int(match[2])), _short(text)))


def _times(text: str, count: int) -> str:
    if len(text) * count > MOST:
        raise LayerPatternError(f"a layout of more than {MOST:,} characters")
    return text * count


def _short(text: str) -> str:
    if len(text) > MOST:
        raise LayerPatternError(f"a layout of more than {MOST:,} characters")
    return text


def even(layers: int, parts: int) -> tuple[int, ...]:
    """Layers of each part where they are spread as evenly as they go, the extra ones first."""
    share, extra = divmod(layers, parts)
    return tuple(share + (part < extra) for part in range(parts))
