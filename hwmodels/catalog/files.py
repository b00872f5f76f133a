"""Where catalog files lie, how they build on one another, and the sources they cite."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodels.catalog.errors import CatalogError, UnknownName, nearest_first
from hwmodels.catalog.record import Record, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT = Path(__file__).resolve().parent
_FOLDERS = {"gpu": "gpus", "node": "nodes", "nic": "nics", "switch": "switches", "stack": "stacks"}
KINDS = tuple(_FOLDERS)
_NEVER_INHERITED = ("name", "title", "date", "gpus", "tuned")  # what identifies a stack is its own


@cache
def names(kind: str) -> tuple[str, ...]:
    """Names of all entries of ``kind`` (one of ``KINDS``), in alphabetical order."""
    if kind not in _FOLDERS:
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    return tuple(sorted(path.stem for path in (_ROOT / _FOLDERS[kind]).glob("*.yaml")))


def record(kind: str, name: str, parent_key: str = "base") -> Record:
    """The file of one entry, completed by the entries that ``parent_key`` names.

    Raises ``UnknownName`` for a name without a file and ``CatalogError`` for a faulty one.
    """
    content = merged(kind, name, parent_key, ())
    if content.get("name") != name:
        raise CatalogError(f"{_where(kind, name)}: name: {content.get('name')!r} is not the name of the file")
    cited = {**shared_sources(), **citations(content.pop("sources", {}), _where(kind, name))}
    content.pop("refused_names", None)
    return Record(content, _where(kind, name), cited)


def protocols_record() -> Record:
    """The file of collective protocols."""
    content = read_yaml(_ROOT / "protocols.yaml")
    cited = {**shared_sources(), **citations(content.pop("sources", {}), "protocols.yaml")}
    return Record(content, "protocols.yaml", cited)


@cache
def shared_sources() -> dict[str, str]:
    """Citations that every file may use by key."""
    return citations(read_yaml(_ROOT / "sources.yaml"), "sources.yaml")


@cache
def raw(kind: str, name: str) -> Mapping[str, Any]:
    """What the file of one entry says, without what it builds on. Not to be changed by the caller."""
    return read_yaml(_ROOT / _FOLDERS[kind] / f"{name}.yaml")


def merged(kind: str, name: str, parent_key: str, below: tuple[str, ...]) -> dict[str, Any]:
    """Content of an entry with what it builds on. ``below`` are the names that led here."""
    if name not in names(kind):
        raise UnknownName(kind, name, nearest_first(name, names(kind)), _refusals(kind).get(name, ""))
    if name in below:
        raise CatalogError(f"{_where(kind, name)}: {parent_key}: a circle: {' -> '.join((*below, name))}")
    content = dict(raw(kind, name))
    parent = content.get(parent_key) if parent_key == "inherits" else content.pop(parent_key, None)
    if parent is None:
        return content
    try:
        inherited = merged(kind, str(parent), parent_key, (*below, name))
    except UnknownName as error:
        raise CatalogError(f"{_where(kind, name)}: {parent_key}: {error}") from error
    if parent_key == "inherits":
        return overlaid_stack(inherited, content)
    inherited = {key: value for key, value in inherited.items() if key not in ("name", "refused_names")}
    return _overlaid(inherited, content)


def overlaid_stack(inherited: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A stack file on top of the one that it inherits from; what identifies a stack is its own."""
    return _overlaid({key: value for key, value in inherited.items() if key not in _NEVER_INHERITED}, own)


def _overlaid(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``under``, table by table; a figure replaces a figure whole."""
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        tables = isinstance(value, dict) and isinstance(below, dict)
        result[key] = _overlaid(below, value) if tables and not _is_figure(value) else value  # type: ignore[arg-type]
    return result


def _is_figure(value: dict[str, Any]) -> bool:
    return "value" in value


@cache
def _refusals(kind: str) -> dict[str, str]:
    """Names that people write for something else, with what they should know."""
    found: dict[str, str] = {}
    for name in names(kind):
        found.update(raw(kind, name).get("refused_names", {}))
    return found


def citations(table: object, where: str) -> dict[str, str]:
    """A table of sources as citations: ``title, where to find it (date)``."""
    if not isinstance(table, dict):
        raise CatalogError(f"{where}: sources: a mapping of keys to {{title, url, date}} is due here")
    return {key: _citation(entry, f"{where}: sources.{key}") for key, entry in table.items()}


def _citation(entry: object, where: str) -> str:
    if not isinstance(entry, dict) or "title" not in entry or set(entry) - {"title", "url", "date"}:
        raise CatalogError(f"{where}: a source is {{title, url, date}}; url and date may be left out")
    url = f", {entry['url']}" if "url" in entry else ""
    date = f" ({entry['date']})" if "date" in entry else ""
    return f"{entry['title']}{url}{date}"


def _where(kind: str, name: str) -> str:
    return f"{_FOLDERS[kind]}/{name}.yaml"
