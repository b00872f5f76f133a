"""``extends: other.yaml``: reads a chain of files and merges them, every value keeping its position.

Mappings merge deeply, scalars and lists replace, ``null`` takes an inherited field back to its
default. Paths are relative to the file that says ``extends``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from sim.scenario.aliases import canonical
from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.stack_path import with_stack_path
from sim.scenario.yaml_document import MAX_BYTES, Block, Entry, Node, Scalar, decode, parse

MAX_CHAIN = 16


@dataclass(frozen=True)
class Source:
    """Where a scenario text comes from. ``folder`` is what its ``extends`` is relative to, None for nowhere.

    ``within`` confines the whole chain to one folder (for texts of strangers).
    """

    name: str
    folder: Path | None
    within: Path | None = None
    chain: tuple[Path, ...] = ()  # resolved files, from the first to this one


def read_file(path: str | Path, problems: list[Problem], within: Path | None = None) -> Block:
    """Tree of a scenario file with everything that it extends.

    Faults that leave a readable tree go to ``problems``; raises ScenarioError for the others.
    """
    name = os.fspath(path)
    start = Position(name, 1, 1)
    text = _read(Path(path), name, start, "")
    return read_text(text, Source(name, Path(path).parent, within, (_real(path),)), problems)


def read_text(text: str, source: Source, problems: list[Problem]) -> Block:
    """The same for a text."""
    return inherit(parse(text, source.name, problems), source, problems)


def inherit(root: Node, source: Source, problems: list[Problem]) -> Block:
    """``root`` in our names, merged over the files that it extends."""
    if not isinstance(root, Block):
        what = shown(root.value) if isinstance(root, Scalar) else "a list"
        message = f"{what}: a scenario is a mapping with model, cluster and training"
        raise ScenarioError([Problem(root.position, "", message)])
    own = with_stack_path(canonical(root, problems), source.folder, source.within, problems)
    if "extends" not in own.entries:
        return own
    base = _base(own.entries["extends"], source, problems)
    return merge(base, Block({k: e for k, e in own.entries.items() if k != "extends"}, own.position))


def merge(base: Block, over: Block) -> Block:
    """``over`` on top of ``base``."""
    entries = dict(base.entries)
    for name, entry in over.entries.items():
        inherited = entries.get(name)
        if inherited is not None and isinstance(entry.value, Scalar) and entry.value.value is None:
            del entries[name]
        elif inherited is not None and isinstance(inherited.value, Block) and isinstance(entry.value, Block):
            entries[name] = replace(entry, value=merge(inherited.value, entry.value))
        else:
            entries[name] = entry
    return Block(entries, over.position)


def _base(entry: Entry, source: Source, problems: list[Problem]) -> Block:
    value, at = entry.value, entry.value.position

    def fail(message: str) -> ScenarioError:
        return ScenarioError([Problem(at, "extends", message)])

    if (
        not isinstance(value, Scalar)
        or not isinstance(value.value, str)
        or "\0" in value.value
        or not value.value
    ):
        raise fail("the path of one scenario file, relative to this file")
    if source.folder is None:
        raise fail(f"{shown(value.value)}: a text without a folder cannot extend a file; load it from a file")
    path = source.folder / value.value
    resolved = _real(path)
    if source.within is not None and not resolved.is_relative_to(_real(source.within)):
        raise fail(f"{shown(value.value)}: only a shipped scenario may be extended here")
    if resolved in source.chain:
        loop = " -> ".join(p.name for p in (*source.chain[source.chain.index(resolved) :], resolved))
        raise fail(f"{shown(value.value)}: a loop: {loop}")
    if len(source.chain) >= MAX_CHAIN:
        raise fail(f"{shown(value.value)}: a chain of more than {MAX_CHAIN} files")
    name = os.path.normpath(path)
    text = _read(path, name, at, "extends")
    return read_text(text, Source(name, path.parent, source.within, (*source.chain, resolved)), problems)


def _real(path: str | Path) -> Path:
    """Absolute path without links. Unlike ``Path.resolve``, a loop of links is no exception."""
    return Path(os.path.realpath(path))


def _read(path: Path, name: str, position: Position, field: str) -> str:
    """Text of a regular file. Trouble is located at ``position``, where the path was written."""
    try:
        reason = None if path.is_file() else "is a folder" if path.is_dir() else "no such file"
        if reason is None:
            with path.open("rb") as file:
                return decode(file.read(MAX_BYTES + 1), name)
    except (
        OSError,
        ValueError,
    ) as error:  # ValueError: a NUL in the path; decoding errors are located already
        if isinstance(error, ScenarioError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
    raise ScenarioError([Problem(position, field, f"{shown(name)}: {reason}: the path of a scenario file")])
