"""The text of a configuration file, read with every limit that a stranger's file needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_document import MAX_BYTES, decode

_SCENARIO = re.compile("scenario file")

MAX_FILES = 64
"""Files of one configuration: more is a chain gone wild."""


def read_text(path: str | Path, at: Position | None = None, field: str = "", *, head: bool = False) -> str:
    """Text of the regular file ``path``, at most ``MAX_BYTES`` of UTF-8; with ``head`` the first lines of a larger one.

    Raises ScenarioError, for a file that cannot be opened located ``at`` where its path was written.
    """
    name = os.fspath(path)
    try:
        file = Path(path)
        reason = None if file.is_file() else "is a folder" if file.is_dir() else "no such file"
        if reason is None:
            with file.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
            if head and len(data) > MAX_BYTES:
                data = data[: data.rfind(b"\n") + 1]
            return decode(data, name)
    except ScenarioError as error:
        raise reworded(error) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
    raise ScenarioError([Problem(at or Position(name), field, f"{shown(name)}: {reason}")])


def reworded(error: ScenarioError) -> ScenarioError:
    """What the reader of scenarios says of a file, said of a configuration."""
    return ScenarioError(
        replace(
            problem,
            message=_SCENARIO.sub("configuration file", problem.message.partition(": a scenario ")[0]),
        )
        for problem in error.problems
    )


def real(path: str | Path) -> Path:
    """Absolute path without links; a loop of links is no exception."""
    return Path(os.path.realpath(path))


def lies_in(path: Path, folders: Iterable[Path]) -> bool:
    """Whether ``path``, links followed, lies in one of ``folders``."""
    resolved = real(path)
    return any(resolved.is_relative_to(real(folder)) for folder in folders)
