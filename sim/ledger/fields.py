"""Reads typed fields out of a located YAML block and collects every complaint with its place."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.scenario.errors import Problem, shown
from sim.scenario.yaml_document import Block, Entry, Items, Node, Scalar


@dataclass
class FieldReader:
    """One block under ``path``. Wrong fields go to ``problems`` and read as absent, so that all show at once."""

    block: Block
    path: str
    problems: list[Problem] = field(default_factory=list)

    @staticmethod
    def of(node: Node, path: str, problems: list[Problem]) -> FieldReader | None:
        """A reader of ``node``, or None (and a problem) when it is not a mapping."""
        if isinstance(node, Block):
            return FieldReader(node, path, problems)
        problems.append(Problem(node.position, path, f"{shown(_value(node))}: should be a mapping"))
        return None

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """Complains about every key that is not in ``known``, naming the nearest."""
        for key, entry in self.block.entries.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                self._complain(entry, f"unknown key{hint}; known: {', '.join(known)}")

    def entry(self, key: str) -> Entry | None:
        return self.block.entries.get(key)

    def node(self, key: str) -> Node | None:
        entry = self.entry(key)
        return None if entry is None else entry.value

    def missing(self, key: str, what: str) -> None:
        self.problems.append(Problem(self.block.position, self._at(key), f"missing: {what}"))

    def text(self, key: str, choices: Sequence[str] = ()) -> str:
        """A text (numbers and dates as written); empty when absent."""
        entry = self.entry(key)
        if entry is None:
            return ""
        value = _value(entry.value)
        if value is None or isinstance(value, (bool, dict, list)):
            self._complain(entry, f"{shown(value)}: should be a text")
            return ""
        if choices and value not in choices:
            self._complain(entry, f"{shown(value)}: should be one of {', '.join(choices)}")
            return ""
        return " ".join(str(value).split())

    def texts(self, key: str) -> tuple[str, ...]:
        entry = self.entry(key)
        if entry is None:
            return ()
        if not isinstance(entry.value, Items):
            self._complain(entry, f"{shown(_value(entry.value))}: should be a list of texts")
            return ()
        values = [_value(node) for node in entry.value.values]
        for node, value in zip(entry.value.values, values, strict=True):
            if not isinstance(value, str):
                message = f"{shown(value)}: should be a text (quote it if it holds a colon)"
                self.problems.append(Problem(node.position, self._at(key), message))
        return tuple(" ".join(value.split()) for value in values if isinstance(value, str))

    def flag(self, key: str, default: bool) -> bool:
        entry = self.entry(key)
        if entry is None:
            return default
        value = _value(entry.value)
        if not isinstance(value, bool):
            self._complain(entry, f"{shown(value)}: should be true or false")
            return default
        return value

    def number(self, key: str) -> float | None:
        """A positive, finite number; None when absent."""
        entry = self.entry(key)
        if entry is None:
            return None
        return self._positive(entry.value, key)

    def numbers(self, key: str) -> tuple[float, ...]:
        entry = self.entry(key)
        if entry is None:
            return ()
        if not isinstance(entry.value, Items) or not entry.value.values:
            self._complain(entry, f"{shown(_value(entry.value))}: should be a list of positive numbers")
            return ()
        read = [self._positive(node, key) for node in entry.value.values]
        return tuple(number for number in read if number is not None)

    def _positive(self, node: Node, key: str) -> float | None:
        value = _value(node)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.problems.append(Problem(node.position, self._at(key), f"{shown(value)}: should be a number"))
        elif not (value > 0 and math.isfinite(value)):
            self.problems.append(
                Problem(node.position, self._at(key), f"{shown(value)}: should be above zero")
            )
        else:
            return float(value)
        return None

    def _complain(self, entry: Entry, message: str) -> None:
        self.problems.append(Problem(entry.key_position, self._at(entry.key), message))

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def _value(node: Node) -> object:
    if isinstance(node, Scalar):
        return node.value
    return {} if isinstance(node, Block) else []
