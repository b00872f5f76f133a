"""A likely cause of slow sizes, in words a person can act on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"


@dataclass(frozen=True)
class Cause:
    """``lines`` are the rows of the log that it explains. ``advice`` says what to look at."""

    key: str
    confidence: str  # certain: the log says so; likely: the figures fit it; possible: they do not exclude it
    finding: str
    advice: str
    lines: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"lines": list(self.lines)}
