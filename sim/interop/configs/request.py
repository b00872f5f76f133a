"""What the user adds to a file that does not say everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """``environment`` holds the variables that may be put in, and no others; ``root`` is where presets lie.

    ``ignored`` settings are predicted without instead of refused.
    """

    path: Path
    node: str | None = None
    nodes: int | None = None
    overrides: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    root: Path | None = None
    ignored: frozenset[str] = frozenset()

    @property
    def own_model(self) -> bool:
        """The user gives a model as a whole: that of the file is not looked at."""
        return any(override.startswith("model=") for override in self.overrides)
