"""A YAML text as a tree whose every value knows where it was written.

Built from parser events, so that nothing is constructed before it is checked: size, depth and the
number of values after alias expansion are bounded, duplicate keys and tags are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_scalars import NumberTooLong, resolve

MAX_BYTES = 1_000_000
MAX_VALUES = 10_000  # after expansion of aliases
MAX_DEPTH = 24

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Scalar:
    """Text, number, boolean or null."""

    value: str | int | float | bool | None
    position: Position


@dataclass(frozen=True)
class Items:
    """A sequence."""

    values: tuple[Node, ...]
    position: Position


@dataclass(frozen=True)
class Entry:
    """One ``key: value`` of a block. ``key`` is as written, also where it is an alias of a field."""

    key: str
    key_position: Position
    value: Node


@dataclass(frozen=True)
class Block:
    """A mapping, by field name."""

    entries: dict[str, Entry]
    position: Position


Node = Scalar | Items | Block
Path = tuple[str | int, ...]


def plain(node: Node) -> Any:
    """The tree as dicts, lists and scalars."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(value) for value in node.values]
    return {name: plain(entry.value) for name, entry in node.entries.items()}


def locate(root: Node, path: Path) -> tuple[Position, Node | None]:
    """Position and node of ``path``; for an absent one, the nearest key that encloses it and None."""
    node, position = root, root.position
    for step in path:
        if isinstance(node, Block) and step in node.entries:
            entry = node.entries[str(step)]
            node, position = entry.value, entry.key_position
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.values):
            node = node.values[step]
            position = node.position
        else:
            return position, None
    return node.position, node


def parse(text: str, source: str, problems: list[Problem] | None = None) -> Node:
    """Tree of the one document in ``text``. Raises ScenarioError, located in ``source``.

    With ``problems`` given, faults that leave a readable tree (a duplicate key, a tag) go there instead.
    """
    _refuse_unprintable(text, source)
    builder = _Builder(source, _events(text, source))
    node = builder.document()
    if builder.problems and problems is None:
        raise ScenarioError(builder.problems)
    if problems is not None:
        problems += builder.problems
    return node


def decode(data: bytes, source: str) -> str:
    """UTF-8 text of a file. Raises ScenarioError for other encodings and oversized files."""
    if len(data) > MAX_BYTES:
        _fail(Position(source, 1, 1), f"larger than {MAX_BYTES:,} bytes: not a scenario file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        byte = f"byte 0x{data[error.start]:02x}"
        _fail(_position_after(before, source), f"{byte} is not UTF-8: a scenario file is UTF-8 text")


def _fail(position: Position, message: str) -> NoReturn:
    raise ScenarioError([Problem(position, "", message)])


def _position_after(before: str, source: str) -> Position:
    return Position(source, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _refuse_unprintable(text: str, source: str) -> None:
    if len(text) > MAX_BYTES:
        _fail(Position(source, 1, 1), f"longer than {MAX_BYTES:,} characters: not a scenario file")
    found = _UNPRINTABLE.search(text)
    if found:
        position = _position_after(text[: found.start()], source)
        _fail(position, f"character {found.group()!a} may not stand in a text file")


def _events(text: str, source: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        _fail(*_explain(error, text, source))
    except yaml.YAMLError as error:
        _fail(Position(source, 1, 1), f"not valid YAML: {error}")


def _explain(error: yaml.MarkedYAMLError, text: str, source: str) -> tuple[Position, str]:
    problem = error.problem or "syntax error"
    mark = error.problem_mark or error.context_mark
    past_the_end = mark is not None and mark.line >= len(text.rstrip("\n").split("\n"))
    if error.context_mark is not None and (past_the_end or "end of stream" in problem):
        mark, problem = (
            error.context_mark,
            f"{problem} {error.context or ''}: something opened here is never closed",
        )
    if mark is None:
        return Position(source, 1, 1), f"not valid YAML: {problem}"
    lines = text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line[mark.column : mark.column + 1] == "\t":
        problem = "a tab: indent with spaces"
    return Position(source, mark.line + 1, mark.column + 1), f"not valid YAML: {problem}"


@dataclass
class _Builder:
    """Turns one stream of parser events into a tree."""

    source: str
    events: Iterator[Any]
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    values: int = 0

    def document(self) -> Node:
        event = next(self.events)
        while isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
            event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            _fail(
                Position(self.source, 1, 1), "the file is empty: a scenario needs model, cluster and training"
            )
        root = self.node(event, 0)
        next(self.events)  # end of this document
        following = next(self.events)
        if isinstance(following, yaml.DocumentStartEvent):
            _fail(self.at(following), "a second document: a scenario file holds one")
        return root

    def at(self, event: Any) -> Position:
        return Position(self.source, event.start_mark.line + 1, event.start_mark.column + 1)

    def note(self, event: Any, message: str) -> None:
        self.problems.append(Problem(self.at(event), "", message))

    def node(self, event: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            _fail(self.at(event), f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        before = self.values
        self.count(event, 1)
        if event.tag is not None:
            self.note(event, f"tag {shown(event.tag)} is not accepted: write the plain value")
        if isinstance(event, yaml.ScalarEvent):
            node: Node = self.scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.items(event, depth)
        else:
            node = self.block(event, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.values - before)
        return node

    def count(self, event: Any, more: int) -> None:
        self.values += more
        if self.values > MAX_VALUES:
            _fail(self.at(event), f"more than {MAX_VALUES:,} values, aliases expanded: not a scenario file")

    def alias(self, event: Any) -> Node:
        if event.anchor not in self.anchors:
            _fail(self.at(event), f"alias *{event.anchor} points at no earlier, complete value")
        node, size = self.anchors[event.anchor]
        self.count(event, size)
        return node

    def scalar(self, event: Any) -> Scalar:
        if not event.implicit[0]:
            return Scalar(event.value, self.at(event))
        try:
            return Scalar(resolve(event.value), self.at(event))
        except NumberTooLong as error:
            self.note(event, f"{error}: no field takes one")
            return Scalar(event.value, self.at(event))

    def items(self, start: Any, depth: int) -> Items:
        values = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            values.append(self.node(event, depth + 1))
        return Items(tuple(values), self.at(start))

    def block(self, start: Any, depth: int) -> Block:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key, key_position = self.key(event, depth), self.at(event)
            value = self.node(next(self.events), depth + 1)
            if key is None:
                continue
            if key in entries:
                first = entries[key].key_position
                self.problems.append(
                    Problem(key_position, "", f"duplicate key {shown(key)}: first given at line {first.line}")
                )
                continue
            entries[key] = Entry(key, key_position, value)
        return Block(entries, self.at(start))

    def key(self, event: Any, depth: int) -> str | None:
        """The name; None for a key that is no scalar, which is noted."""
        if isinstance(event, yaml.ScalarEvent):
            self.count(event, 1)
            return str(event.value)
        self.node(event, depth + 1)
        self.note(event, "a key must be a field name")
        return None
