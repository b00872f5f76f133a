"""What can make a run slower than its prediction, as facts (``mechanisms.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hwmodels.catalog.errors import CatalogError
from hwmodels.catalog.files import citations
from hwmodels.catalog.record import read_yaml
from hwmodels.figure import CONFIDENCES
from sim.diagnosis.reading import READINGS
from sim.diagnosis.sign import SIGNS

_FILE = Path(__file__).with_name("mechanisms.yaml")
AREAS = ("software", "plan", "machine", "input", "counting")
_KEYS = {"title", "area", "try", "makes", "size", "reading", "signs", "test"}
MAKES = ("slower", "faster", "")


@dataclass(frozen=True)
class Mechanism:
    """``changes`` run from mild to severe, each a tuple of ``field=value``; ``reading`` names a way of counting instead."""

    key: str
    title: str
    area: str
    test: str
    changes: tuple[tuple[str, ...], ...] = ()
    makes: str = ""  # slower | faster: changes that do the other are not this mechanism
    reading: str = ""
    signs: Mapping[str, str] | None = None
    size: str = ""  # where the degrees come from


@cache
def mechanisms() -> Mapping[str, Mechanism]:
    """All mechanisms by key, in the order of the file. Raises ``CatalogError`` for a faulty one."""
    content = read_yaml(_FILE)
    cited = citations(content.pop("sources"), _FILE.name)
    return {key: _mechanism(key, fields, cited) for key, fields in content["mechanisms"].items()}


def _mechanism(key: str, fields: Mapping[str, Any], cited: Mapping[str, str]) -> Mechanism:
    def wrong(field: str, what: str) -> CatalogError:
        return CatalogError(f"{_FILE.name}: {key}.{field}: {what}")

    for field in set(fields) - _KEYS:
        raise wrong(field, f"unknown key; known: {', '.join(sorted(_KEYS))}")
    if ("try" in fields) == ("reading" in fields):
        raise wrong("try", "give either changes to try or a reading")
    if fields.get("area") not in AREAS:
        raise wrong("area", f"should be one of {', '.join(AREAS)}")
    if fields.get("reading", READINGS[0]) not in READINGS:
        raise wrong("reading", f"should be one of {', '.join(READINGS)}")
    if fields.get("makes", "") not in MAKES:
        raise wrong("makes", "should be slower or faster")
    for sign, value in fields.get("signs", {}).items():
        if value not in SIGNS.get(sign, ()):
            raise wrong(f"signs.{sign}", f"{value!r} is no value of a known sign")
    size = fields.get("size")
    if size is not None and (size["source"] not in cited or size["confidence"] not in CONFIDENCES):
        raise wrong("size", "needs a known source, a confidence and a note")
    return Mechanism(
        key=key,
        title=fields["title"],
        area=fields["area"],
        test=fields["test"],
        changes=tuple(tuple(change) for change in fields.get("try", ())),
        makes=fields.get("makes", ""),
        reading=fields.get("reading", ""),
        signs=dict(fields.get("signs", {})),
        size="" if size is None else f"{size['note']} ({size['confidence']})",
    )
