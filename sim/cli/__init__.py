"""The command ``sim``: parse, call one function of the public API, show.

Exit codes: 0 ok, 2 bad input (a message on standard error, never a traceback), 3 does not fit in memory (the
prediction is printed all the same). Everything heavy is imported inside the command that needs it.
One file per command; ``entry.py`` gathers them.
"""

from __future__ import annotations

from sim.cli.entry import app, main

__all__ = ["app", "main"]
