"""``--set a.b.c=value``: one field changed from the command line. The value is read as YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sim.scenario.aliases import canonical
from sim.scenario.errors import Position, Problem, ScenarioError
from sim.scenario.inheritance import merge
from sim.scenario.yaml_document import Block, Entry, Items, Node, Scalar, parse

LONGEST = 10_000  # characters of one override
_FIELD = re.compile(r"[^\s.=]+(\.[^\s.=]+)*")


def apply_overrides(root: Block, overrides: Iterable[str], problems: list[Problem]) -> Block:
    """``root`` with each ``a.b.c=value`` merged over it, in order. Unreadable ones go to ``problems``."""
    for text in overrides:
        try:
            root = merge(root, _override(text))
        except ScenarioError as error:
            problems.extend(error.problems)
    return root


def _override(text: str) -> Block:
    short = text if len(text) <= 80 else f"{text[:80]}…"
    position = Position("--set " + short.replace("\n", " "))
    path, equals, written = text.partition("=")
    if not equals or not _FIELD.fullmatch(path) or len(text) > LONGEST:
        raise _error(position, "write field=value, for example parallelism.tp=4")
    steps = path.split(".")
    if steps[0] == "extends":
        raise _error(position, "extends belongs in the file: it says which file this one starts from")
    if len(steps) > 8:
        raise _error(position, "no field lies that deep")
    block = Block({steps[-1]: Entry(steps[-1], position, _value(written, position))}, position)
    for step in reversed(steps[:-1]):
        block = Block({step: Entry(step, position, block)}, position)
    problems: list[Problem] = []
    block = canonical(block, problems)
    if problems:
        raise ScenarioError(problems)
    return block


def _value(written: str, position: Position) -> Node:
    if not written.strip():
        return Scalar(None, position)
    try:
        return _moved(parse(written, position.source), position)
    except ScenarioError as error:
        raise _error(position, error.problems[0].message) from None


def _moved(node: Node, position: Position) -> Node:
    """The same tree, all of it located at ``position``."""
    if isinstance(node, Scalar):
        return Scalar(node.value, position)
    if isinstance(node, Items):
        return Items(tuple(_moved(value, position) for value in node.values), position)
    return Block(
        {
            name: Entry(entry.key, position, _moved(entry.value, position))
            for name, entry in node.entries.items()
        },
        position,
    )


def _error(position: Position, message: str) -> ScenarioError:
    return ScenarioError([Problem(position, "", message)])
