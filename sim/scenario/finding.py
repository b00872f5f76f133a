"""What one check has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from sim.scenario.schema import Scenario


@dataclass(frozen=True)
class Finding:
    """A broken rule in words. ``fields`` are the dotted fields at fault, the most likely first."""

    fields: tuple[str, ...]
    message: str


Check = Callable[[Scenario], Iterator[Finding]]


def finding(message: str, *fields: str) -> Finding:
    return Finding(fields, message)


def given(section: BaseModel, field: str) -> bool:
    """Whether the file (or an override) says this, rather than the default."""
    return field in section.model_fields_set
