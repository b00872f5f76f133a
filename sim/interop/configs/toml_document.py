"""TOML as a tree with positions. ``tomllib`` reads the values; the lines are found beside it."""

from __future__ import annotations

import re
import tomllib

from sim.interop.configs.draft import node
from sim.scenario.errors import Position, Problem, ScenarioError
from sim.scenario.yaml_document import MAX_DEPTH, MAX_VALUES, Block, Entry

_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_.\"' -]{1,200}?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]{1,200}?)\s*=")
_LINE = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")


def parse_toml(text: str, source: str) -> Block:
    """Tree of the document. Raises ScenarioError, located in ``source``."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError([_syntax_problem(str(error), text, source)]) from None
    except RecursionError:
        raise ScenarioError([Problem(Position(source, 1, 1), "", "nested too deep")]) from None
    except ValueError as error:  # a number that Python will not convert
        raise ScenarioError([Problem(Position(source, 1, 1), "", f"not valid TOML: {error}")]) from None
    _check_size(content, source)
    return _block(content, (), _lines(text), Position(source, 1, 1))


def _syntax_problem(message: str, text: str, source: str) -> Problem:
    place = _LINE.search(message)
    line, column = (text.count("\n") + 1, 1)
    if place is not None and place[1]:
        line, column = int(place[1]), int(place[2])
    return Problem(Position(source, line, column), "", f"not valid TOML: {_LINE.sub('', message).strip()}")


def _check_size(content: object, source: str) -> None:
    """Without recursion: the depth is what is being checked."""
    stack, values = [(content, 0)], 0
    while stack:
        value, depth = stack.pop()
        values += 1
        if depth > MAX_DEPTH:
            raise ScenarioError(
                [Problem(Position(source, 1, 1), "", f"nested deeper than {MAX_DEPTH} levels")]
            )
        if values > MAX_VALUES:
            raise ScenarioError([Problem(Position(source, 1, 1), "", f"more than {MAX_VALUES:,} values")])
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        stack.extend((item, depth + 1) for item in inner)


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Line of each table and key by its path; the first mention counts."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if match := _TABLE.match(line):
            table = _path(match[1])
            found.setdefault(table, number)
        elif match := _KEY.match(line):
            found.setdefault((*table, *_path(match[1])), number)
    return found


def _path(words: str) -> tuple[str, ...]:
    return tuple(word.strip().strip("\"'") for word in words.split("."))


def _block(
    content: dict[str, object], path: tuple[str, ...], lines: dict[tuple[str, ...], int], outer: Position
) -> Block:
    at = Position(outer.source, lines.get(path, outer.line), 1)
    entries = {}
    for key, value in content.items():
        place = Position(at.source, lines.get((*path, key), at.line), 1)
        inner = (
            _block(value, (*path, key), lines, place)
            if isinstance(value, dict)
            else node(_plain(value), place)
        )
        entries[key] = Entry(key, place, inner)
    return Block(entries, at)


def _plain(value: object) -> object:
    """Dates are text here: no setting with an effect is one."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value if isinstance(value, (str, int, float, bool)) else str(value)
