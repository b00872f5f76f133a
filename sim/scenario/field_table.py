"""The tables of ``docs/scenario.md``, taken from the schema and the aliases.

``python -m sim.scenario`` rewrites what stands between the markers; a test holds the page to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sim.scenario.aliases import ALIASES
from sim.scenario.fields import EXAMPLES, AxisOrder, Number, Quantity, StageLayers, Text, Whole
from sim.scenario.inline_model import InlineModel, ModelChoice
from sim.scenario.schema import RecomputeSpec, Scenario

SCENARIO_PAGE = "docs/scenario.md"

Row = tuple[str, ...]

_HEAD = ("field", "unit", "default", "allowed", "what it is")
_SI = {"power": "W", "bytes": "B", "bandwidth": "B/s", "frequency": "Hz", "time": "s"}
_EXTENDS = ("`extends`", "", "–", "path of a file", "Scenario file to start from, relative to this one")


def write_page(root: Path) -> bool:
    """Rewrites the tables of the page in the checkout at ``root``; False where there is no page (a wheel)."""
    page = root / SCENARIO_PAGE
    if not page.is_file():
        return False
    page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    return True


def with_tables(page: str) -> str:
    """``page`` with both tables between their markers. Raises ``ValueError`` when markers are missing."""
    for name, table in (("fields", field_tables()), ("aliases", alias_table())):
        page = _between(page, f"<!-- {name}:begin -->", f"<!-- {name}:end -->", table)
    return page


def field_tables() -> str:
    """One Markdown table per section, every field of the schema in it."""
    parts = []
    for section, model in sections():
        rows = [_row(name, info) for name, info in model.model_fields.items()]
        if not section:
            rows.insert(1, _EXTENDS)
        title = f"`{section}`" if section else "Top level"
        parts.append(f"### {title}\n\n{_table(_HEAD, rows)}")
    return "\n\n".join(parts)


def alias_table() -> str:
    """Names of other tools with the field that each means, and how values are translated."""
    rows = []
    for alias in ALIASES:
        words = "" if alias.values is None else _translation(alias.values)
        rows.append(
            (f"`{alias.section}.{alias.name}`", f"`{alias.section}.{alias.field}`", words, alias.origin)
        )
    return _table(("written", "means", "values", "name of"), rows)


def sections(path: str = "", model: type[BaseModel] = Scenario) -> Iterator[tuple[str, type[BaseModel]]]:
    """Dotted path and schema of every mapping of a scenario, the whole first."""
    yield path, model
    for name, info in model.model_fields.items():
        inner = _inner(info)
        if inner is not None and inner is not RecomputeSpec:  # written as a word, told in its own row
            yield from sections(f"{path}.{name}" if path else name, inner)


def _row(name: str, info: FieldInfo) -> Row:
    key = info.alias or name
    allowed = _allowed(info)
    return f"`{key}`", _unit(info), _default(info, allowed), allowed, info.description or ""


def _unit(info: FieldInfo) -> str:
    quantity = next((mark for mark in _marks(info) if isinstance(mark, Quantity)), None)
    if quantity is not None:
        return f"{_SI[quantity.dimension]}, such as `{EXAMPLES[quantity.dimension]}`"
    extra = info.json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, Mapping) else ""


def _default(info: FieldInfo, allowed: str) -> str:
    if info.is_required():
        return "**required**"
    if info.default_factory is not None or info.default is None:
        return "–"
    if isinstance(info.default, RecomputeSpec):
        return f"`{info.default.kind}`"
    if isinstance(info.default, BaseModel):
        return "–" if allowed.startswith("mapping") else str(info.default)
    return _shown(info.default)


def _allowed(info: FieldInfo) -> str:
    """The values that a field takes, in words."""
    extra = info.json_schema_extra
    catalog = extra.get("names") if isinstance(extra, Mapping) else None
    inner = _inner(info)
    if any(isinstance(mark, ModelChoice) for mark in _marks(info)):
        return "name of the catalog, or a mapping: see `model`"
    if catalog is not None:
        return f"{catalog} of the catalog" + (", or a path" if catalog == "stack" else "")
    if inner is RecomputeSpec:
        kinds = ", ".join(_choices(RecomputeSpec.model_fields["kind"].annotation))
        return f"{kinds} or `{{layers: N}}`"
    if inner is not None:
        return "mapping, below"
    for mark in _marks(info):
        words = _bounds(mark)
        if words:
            listed = _is_list(info.annotation) and not isinstance(mark, StageLayers)
            return f"list, each {words}" if listed else words
    return _plain_choices(info)


def _bounds(mark: object) -> str:
    """What one mark of ``sim.scenario.fields`` lets through; empty for others."""
    match mark:
        case Quantity():
            return f"{mark.low} to {mark.high}"
        case Whole():
            return f"{mark.low:,} to {mark.high:,}"
        case Number():
            return f"{mark.low:g} to {'below ' if mark.below else ''}{mark.high:g}"
        case Text():
            return f"text, at most {mark.longest:,} characters"
        case AxisOrder():
            return f"{', '.join(mark.axes)} joined by hyphens"
        case StageLayers():
            return "`auto`, or a list of whole numbers, one per stage"
    return ""


def _plain_choices(info: FieldInfo) -> str:
    if bool in _parts(info.annotation):
        return "`true`, `false`"
    words = ", ".join(_choices(info.annotation))
    return f"list of {words}" if _is_list(info.annotation) else words


def _choices(annotation: Any) -> list[str]:
    return [
        _shown(value)
        for part in _parts(annotation)
        if get_origin(part) is Literal
        for value in get_args(part)
    ]


def _inner(info: FieldInfo) -> type[BaseModel] | None:
    """The schema of a field that is a mapping."""
    if any(isinstance(mark, ModelChoice) for mark in _marks(info)):
        return InlineModel
    for part in _parts(info.annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _marks(info: FieldInfo) -> list[Any]:
    """Everything that annotates a field or a part of its type."""
    return [
        *info.metadata,
        *(mark for part in _parts(info.annotation) for mark in getattr(part, "__metadata__", ())),
    ]


def _parts(annotation: Any) -> list[Any]:
    """``annotation`` and the types that it is made of, from the outside in."""
    inner = get_args(annotation)
    if get_origin(annotation) is Literal:
        return [annotation]
    if get_origin(annotation) is Annotated:
        inner = inner[:1]
    return [annotation, *(part for each in inner if each not in (NoneType, ...) for part in _parts(each))]


def _is_list(annotation: Any) -> bool:
    alternatives = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return any(get_origin(part) is tuple for part in alternatives)


def _translation(values: Mapping[str | bool, str | bool | None]) -> str:
    """Values that are not simply passed on; one that means None leaves the field alone."""
    return ", ".join(
        f"{_shown(theirs)}: {'left alone' if ours is None else _shown(ours)}"
        for theirs, ours in values.items()
        if theirs != ours
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, (list, tuple)):
        return f"`[{', '.join(str(item) for item in value)}]`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`"


def _table(head: Row, rows: Sequence[Row]) -> str:
    lines: list[Row] = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _between(page: str, begin: str, end: str, content: str) -> str:
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{SCENARIO_PAGE} needs the markers {begin} and {end}, in this order")
    return f"{before}{begin}\n{content}\n{end}{after}"
