"""What is wrong with a scenario and where: positions, problems, the one exception of this room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SHOWN_CHARACTERS = 60  # of an offending value


@dataclass(frozen=True)
class Position:
    """Where a value was written: line and column from 1, or none for a command-line override."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True)
class Problem:
    """One located error. ``path`` is the dotted field, empty where the file itself is at fault."""

    position: Position
    path: str
    message: str

    def __str__(self) -> str:
        parts = (str(self.position), self.path, self.message)
        return ": ".join(part for part in parts if part)


class ScenarioError(ValueError):
    """A scenario that cannot be used. ``errors`` are its located messages, ``problems`` the same in parts."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = _in_reading_order(problems)
        super().__init__("\n".join(self.errors))

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self.problems)

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)  # survives the trip from a worker process


def shown(value: object) -> str:
    """``value`` on one line and short enough for a message; YAML words for None and booleans."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)) and len(value) > 8:
        return f"a list of {len(value)} entries"
    text = repr(list(value)) if isinstance(value, tuple) else repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _in_reading_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sources in order of first mention, then by line and column; overrides last; no repetition."""
    distinct = list(dict.fromkeys(problems))
    sources = list(dict.fromkeys(p.position.source for p in distinct))

    def key(problem: Problem) -> tuple[bool, int, int, int]:
        at = problem.position
        return (at.line == 0, sources.index(at.source), at.line, at.column)

    return tuple(sorted(distinct, key=key))
