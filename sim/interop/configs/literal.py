"""JSON, and dicts and dataclasses as Python prints them, as a tree with positions. Nothing is evaluated.

Read character by character: objects, lists, tuples, text in either kind of quotes, numbers, ``true`` and
``True``, ``null`` and ``None``, and ``Name(field=value, ...)``, which counts as a mapping.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NoReturn

from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_document import MAX_DEPTH, MAX_VALUES, Block, Entry, Items, Node, Scalar

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[-+]?(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][-+]?\d{1,4})?(?![\w.])")
_NAME = re.compile(r"[A-Za-z_][\w.]{0,200}")
_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_WORDS: dict[str, bool | float | None] = {
    "true": True, "True": True, "false": False, "False": False, "null": None, "None": None,
    "NaN": float("nan"), "nan": float("nan"), "Infinity": float("inf"), "inf": float("inf"),
}  # fmt: skip
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def parse_literal(text: str, source: str, *, start: int = 0, whole: bool = True) -> Node:
    """Tree of the one value that begins at ``start``; with ``whole`` nothing may follow it.

    Raises ScenarioError, located in ``source``.
    """
    reader = _Reader(text, source, start)
    node = reader.value(0)
    reader.skip()
    if whole and reader.place < len(text):
        reader.fail("something follows the end of the value")
    return node


@dataclass
class _Reader:
    text: str
    source: str
    place: int
    values: int = 0
    line_ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.line_ends = [match.start() for match in re.finditer("\n", self.text)]

    def fail(self, message: str) -> NoReturn:
        raise ScenarioError([Problem(self.position(), "", message)])

    def position(self) -> Position:
        before = bisect_left(self.line_ends, self.place)
        begin = self.line_ends[before - 1] + 1 if before else 0
        return Position(self.source, before + 1, self.place - begin + 1)

    def skip(self) -> None:
        self.place = _SPACE.match(self.text, self.place).end()  # type: ignore[union-attr]  # matches anything

    def next_is(self, characters: str) -> bool:
        self.skip()
        return self.text[self.place : self.place + 1] in set(characters)

    def take(self, character: str, what: str) -> None:
        if not self.next_is(character):
            self.fail("breaks off here" if self.place >= len(self.text) else f"{what} is due here")
        self.place += 1

    def value(self, depth: int) -> Node:
        self.skip()
        self.values += 1
        if depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH} levels")
        if self.values > MAX_VALUES:
            self.fail(f"more than {MAX_VALUES:,} values: not a configuration")
        at = self.position()
        if self.next_is("{"):
            return self.mapping(depth, at, "}", ":")
        if self.next_is("[("):
            return self.items(depth, at)
        if self.next_is("\"'"):
            return Scalar(self.quoted(), at)
        number = _NUMBER.match(self.text, self.place)
        if number:
            self.place = number.end()
            word = number.group()
            return Scalar(float(word) if set(word) & set(".eE") else int(word), at)
        return self.word(depth, at)

    def word(self, depth: int, at: Position) -> Node:
        name = _NAME.match(self.text, self.place)
        if name is None:
            found = self.text[self.place : self.place + 20]
            self.fail(f"{shown(found)}: a value is due here" if found else "breaks off here")
        self.place = name.end()
        if name.group() in _WORDS:
            return Scalar(_WORDS[name.group()], at)
        if self.next_is("("):
            return self.mapping(depth, at, ")", "=")
        return Scalar(name.group(), at)  # torch.bfloat16, an enumeration member

    def mapping(self, depth: int, at: Position, close: str, between: str) -> Block:
        self.place += 1
        entries: dict[str, Entry] = {}
        while not self.next_is(close):
            key_position = self.position()
            key = self.key()
            self.take(between, f"{between!r}")
            value = self.value(depth + 1)
            if key in entries:
                raise ScenarioError([Problem(key_position, "", f"duplicate key {shown(key)}")])
            entries[key] = Entry(key, key_position, value)
            if not self.next_is(close):
                self.take(",", f"',' or {close!r}")
        self.place += 1
        return Block(entries, at)

    def key(self) -> str:
        if self.next_is("\"'"):
            return self.quoted()
        name = _NAME.match(self.text, self.place)
        number = _NUMBER.match(self.text, self.place)
        found = name or number
        if found is None:
            self.fail(
                "breaks off here" if self.place >= len(self.text) else "the name of a field is due here"
            )
        self.place = found.end()
        return found.group()

    def items(self, depth: int, at: Position) -> Items:
        close = "]" if self.text[self.place] == "[" else ")"
        self.place += 1
        values = []
        while not self.next_is(close):
            values.append(self.value(depth + 1))
            if not self.next_is(close):
                self.take(",", f"',' or {close!r}")
        self.place += 1
        return Items(tuple(values), at)

    def quoted(self) -> str:
        found = _TEXT.match(self.text, self.place)
        if found is None:
            self.fail("text that begins here is never closed")
        self.place = found.end()
        return _unquoted(found.group()).encode("utf-8", "replace").decode()  # no half of a surrogate pair


def _unquoted(written: str) -> str:
    if written[0] == '"':
        try:
            return str(json.loads(written, strict=False))
        except ValueError:
            pass  # an escape that JSON does not know
    return _ESCAPE.sub(_unescaped, written[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _CONTROL.get(code, code)
