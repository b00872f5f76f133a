"""The text of a configuration file, read with every limit that a stranger's file needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_document import MAX_BYTES, decode

MAX_FILES = 64
"""Files of one configuration: more is a chain gone wild."""


def read_text(path: str | Path, at: Position | None = None, field: str = "") -> str:
    """Text of the regular file ``path``, at most ``MAX_BYTES`` of UTF-8.

    Raises ScenarioError, for a file that cannot be opened located ``at`` where its path was written.
    """
    name = os.fspath(path)
    try:
        file = Path(path)
        reason = None if file.is_file() else "is a folder" if file.is_dir() else "no such file"
        if reason is None:
            with file.open("rb") as stream:
                return decode(stream.read(MAX_BYTES + 1), name)
    except ScenarioError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
    raise ScenarioError([Problem(at or Position(name), field, f"{shown(name)}: {reason}")])


def real(path: str | Path) -> Path:
    """Absolute path without links; a loop of links is no exception."""
    return Path(os.path.realpath(path))


def lies_in(path: Path, folders: Iterable[Path]) -> bool:
    """Whether ``path``, links followed, lies in one of ``folders``."""
    resolved = real(path)
    return any(resolved.is_relative_to(real(folder)) for folder in folders)
