"""Reported cases with what was found (``validation/cases.yaml``), and how often each mechanism was it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hwmodels.catalog.errors import CatalogError
from hwmodels.catalog.record import read_yaml
from sim.data_paths import cases_file
from sim.diagnosis.measurement import Measurement
from sim.diagnosis.mechanism import mechanisms

_KEYS = {
    "id", "url", "date", "found", "mechanisms", "scenario", "figure", "measured", "healthy", "slower", "assumed", "note", "notes",
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
    figure: str  # kind of the figure that was reported: MFU, seconds, …; empty where no run was measured
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
        figure=fields.get("figure", "") or _kind(fields.get("measured", "")),
        measured=fields.get("measured", ""),
        healthy=fields.get("healthy"),
        slower=fields.get("slower"),
        notes=tuple(f"{sign}={value}" for sign, value in fields.get("notes", {}).items()),
        assumed=tuple(fields.get("assumed", ())),
        not_replayed=fields.get("not_replayed", ""),
    )


def _kind(measured: str) -> str:
    return Measurement.read(measured).kind if measured else ""


def priors(possible: Iterable[str], figure: str, without: str = "") -> dict[str, float]:
    """How plausible each of the ``possible`` mechanisms is for a figure of that kind before it is looked at.

    Laplace's rule twice. First whether the figure was counted wrongly at all: the share of reports of such figures (an MFU,
    or any other) where that was it. Then which of the mechanisms of either sort that are possible here: the reports that
    found it, plus one; a report that names several counts for each in part. With "something else" they sum to 1.
    ``without`` leaves one report out: a case must not vouch for itself.
    """
    reports = [case for case in reported_cases() if case.id != without and case.mechanisms]
    counts = dict.fromkeys(possible, 1.0)
    for case in reports:
        for key in case.mechanisms:
            if key in counts:
                counts[key] += 1.0 / len(case.mechanisms)
    alike = [case for case in reports if (case.figure == "MFU") == (figure == "MFU")]
    miscounted = sum(_is_counting(case.mechanisms[0]) for case in alike)
    readings = {key: count for key, count in counts.items() if _is_counting(key)}
    share = (miscounted + 1.0) / (len(alike) + 2.0) if readings else 0.0
    others = sum(counts.values()) - sum(readings.values()) + 1.0  # something else
    return {
        key: share * count / sum(readings.values()) if key in readings else (1.0 - share) * count / others
        for key, count in counts.items()
    }


def _is_counting(key: str) -> bool:
    return mechanisms()[key].area == "counting"
