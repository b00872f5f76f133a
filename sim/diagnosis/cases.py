"""Reported cases with what was found (``validation/cases.yaml``), and how often each mechanism was it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hwmodels.catalog.errors import CatalogError
from hwmodels.catalog.record import read_yaml
from sim.data_paths import cases_file

_KEYS = {
    "id", "url", "date", "found", "mechanisms", "scenario", "measured", "healthy", "slower", "assumed", "note", "notes",
    "not_replayed",
}  # fmt: skip


@dataclass(frozen=True)
class ReportedCase:
    """One report. ``scenario`` None where it cannot be replayed, for the reason in ``not_replayed``.

    What was seen is ``measured``, as ``sim explain --measured`` takes it, or ``slower``: so many times longer than it
    should take. ``healthy`` is what the report says of the run once mended, or of a peer.
    """

    id: str
    url: str
    found: str
    mechanisms: tuple[str, ...]
    scenario: Mapping[str, Any] | None
    measured: str
    healthy: str | None
    slower: float | None
    notes: tuple[str, ...]
    assumed: tuple[str, ...]
    not_replayed: str


@cache
def reported_cases() -> tuple[ReportedCase, ...]:
    """All of them. Raises ``CatalogError`` for a faulty file, ``FileNotFoundError`` when the installation lacks it."""
    return tuple(_case(fields) for fields in read_yaml(cases_file())["cases"])


def _case(fields: Mapping[str, Any]) -> ReportedCase:
    name = fields.get("id", "?")
    for key in set(fields) - _KEYS:
        raise CatalogError(f"cases.yaml: {name}: unknown key {key!r}; known: {', '.join(sorted(_KEYS))}")
    if ("scenario" in fields) == ("not_replayed" in fields):
        raise CatalogError(f"cases.yaml: {name}: give either a scenario or why it is not replayed")
    if "scenario" in fields and ("measured" in fields) == ("slower" in fields):
        raise CatalogError(f"cases.yaml: {name}: give either measured or slower")
    return ReportedCase(
        id=name,
        url=fields["url"],
        found=fields["found"],
        mechanisms=tuple(fields.get("mechanisms", ())),
        scenario=fields.get("scenario"),
        measured=fields.get("measured", ""),
        healthy=fields.get("healthy"),
        slower=fields.get("slower"),
        notes=tuple(f"{sign}={value}" for sign, value in fields.get("notes", {}).items()),
        assumed=tuple(fields.get("assumed", ())),
        not_replayed=fields.get("not_replayed", ""),
    )


def priors(keys: Iterable[str], without: str = "") -> dict[str, float]:
    """How plausible each mechanism is before anything is measured; they and "something else" sum to 1.

    Laplace's rule: one more than the reports in which it was found, over all. A report that names several counts for
    each in part. ``without`` leaves one report out: a case must not vouch for itself.
    """
    counts = dict.fromkeys(keys, 1.0)
    for case in reported_cases():
        if case.id != without:
            for key in case.mechanisms:
                if key in counts:
                    counts[key] += 1.0 / len(case.mechanisms)
    total = sum(counts.values()) + 1.0
    return {key: count / total for key, count in counts.items()}
