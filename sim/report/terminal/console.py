"""The console that every page is printed on."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console

PIPE_COLUMNS = 100  # a pipe or a file has no width of its own


def console(stream: IO[str] | None = None, columns: int | None = None) -> Console:
    """A console on ``stream`` (default: standard output). Colour only on a terminal, honouring NO_COLOR."""
    stream = sys.stdout if stream is None else stream
    if columns is None and not stream.isatty():
        columns = PIPE_COLUMNS
    return Console(file=stream, width=columns, highlight=False, soft_wrap=False, emoji=False, markup=False)
