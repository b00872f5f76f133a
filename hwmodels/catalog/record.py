"""Strict reading of one catalog file: every key is asked for, known, and carries its provenance."""

from __future__ import annotations

from datetime import date
from math import nan
from typing import TYPE_CHECKING, Any

import yaml

from hwmodels.catalog.errors import CatalogError
from hwmodels.figure import CONFIDENCES, Figure
from hwmodels.units import DIMENSIONS, UnitError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FIGURE_KEYS = {"value", "source", "confidence", "note"}


class _UniqueKeyLoader(yaml.CSafeLoader):
    """PyYAML keeps the last of two equal keys; here they are an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for i, key in enumerate(keys) if key in keys[:i]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"key {twice!r} twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in ``path``. Raises ``CatalogError`` naming the file when it is none."""
    try:
        content = yaml.load(path.read_text("utf-8"), Loader=_UniqueKeyLoader)  # noqa: S506 (derived from a safe loader)
    except yaml.YAMLError as error:
        raise CatalogError(f"{path.name}: not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise CatalogError(f"{path.name}: a catalog file is a mapping of keys")
    return content


class Record:
    """One mapping of a catalog file. Readers take keys out; ``done`` refuses what nobody asked for.

    Figures taken from the record and its sections collect in ``figures`` under their path
    (``peak_flops.bf16``).
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        where: str,
        sources: Mapping[str, str],
        path: str = "",
        figures: dict[str, Figure] | None = None,
    ) -> None:
        self._left = dict(content)
        self._where = where
        self._sources = sources
        self._path = path
        self.figures: dict[str, Figure] = {} if figures is None else figures

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._left))

    def text(self, key: str) -> str:
        """A plain word or sentence."""
        value = self._take(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"{value!r} is not a text")
        return value

    def day(self, key: str) -> str:
        """A date as ``2025-11-12``."""
        value = self._take(key)
        try:
            return (value if isinstance(value, date) else date.fromisoformat(value)).isoformat()
        except (TypeError, ValueError):
            raise self.error(key, f"{value!r} is not a date like 2025-11-12") from None

    def flag(self, key: str) -> bool:
        """A plain ``true`` or ``false``."""
        value = self._take(key)
        if not isinstance(value, bool):
            raise self.error(key, f"{value!r} is neither true nor false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of words."""
        value = self._take(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"{value!r} is not a list of names")
        return tuple(value)

    def section(self, key: str) -> Record:
        """The mapping under ``key``."""
        value = self._take(key)
        if not isinstance(value, dict):
            raise self.error(key, "a mapping of keys is due here")
        return Record(value, self._where, self._sources, self._full(key), self.figures)

    def sections(self, key: str) -> tuple[Record, ...]:
        """The list of mappings under ``key``."""
        value = self._take(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(key, "a list of mappings is due here")
        paths = [f"{self._full(key)}[{index}]" for index in range(len(value))]
        return tuple(
            Record(item, self._where, self._sources, path, self.figures)
            for item, path in zip(value, paths, strict=True)
        )

    def quantity(self, key: str, *dimensions: str) -> float:
        """A sourced figure of one of ``dimensions``, in SI."""
        figure = self._figure(key)
        failures = []
        for dimension in dimensions:
            try:
                value = parse(figure.text, dimension)
            except UnitError as error:
                failures.append(str(error))
            else:
                self.figures[self._full(key)] = Figure(
                    value, figure.text, figure.source, figure.confidence, figure.note
                )
                return value
        raise self.error(key, failures[0])

    def count(self, key: str) -> int:
        """A sourced whole number."""
        value = self.quantity(key, "number")
        if value != int(value):
            raise self.error(key, f"{value:g} is not a whole number")
        return int(value)

    def choice(self, key: str) -> str:
        """A sourced word, such as the name of another entry."""
        figure = self._figure(key)
        self.figures[self._full(key)] = figure
        return figure.text

    def fact(self, key: str) -> None:
        """Keeps a figure of any dimension, or a sourced text, for display only."""
        figure = self._figure(key)
        value = nan  # a text has no value
        for dimension in DIMENSIONS:
            try:
                value = parse(figure.text, dimension)
            except UnitError:
                continue
            break
        self.figures[self._full(key)] = Figure(
            value, figure.text, figure.source, figure.confidence, figure.note
        )

    def quantities(self, key: str, dimension: str) -> dict[str, float]:
        """A mapping of names to figures of one dimension."""
        section = self.section(key)
        values = {str(name): section.quantity(name, dimension) for name in section}
        if not values:
            raise self.error(key, "at least one figure is due here")
        return values

    def facts(self, key: str = "facts") -> None:
        """The optional table of facts for display."""
        if key in self:
            section = self.section(key)
            for name in section:
                section.fact(name)

    def done(self) -> None:
        """Refuses keys that no reader took."""
        for key in self._left:
            raise self.error(str(key), "unknown key")

    def error(self, key: str, problem: str) -> CatalogError:
        return CatalogError(f"{self._where}: {self._full(key)}: {problem}")

    def _full(self, key: object) -> str:
        return f"{self._path}.{key}" if self._path else str(key)

    def _take(self, key: str) -> Any:
        if key not in self._left:
            raise self.error(key, "missing")
        return self._left.pop(key)

    def _figure(self, key: str) -> Figure:
        """The figure under ``key`` with its provenance checked; its value is not read yet."""
        leaf = self._take(key)
        if not isinstance(leaf, dict) or not {"value", "source", "confidence"} <= set(leaf):
            raise self.error(key, "a figure is {value, source, confidence, note}; note may be left out")
        for extra in sorted(str(name) for name in set(leaf) - _FIGURE_KEYS):
            raise self.error(f"{key}.{extra}", "unknown key")
        if leaf["confidence"] not in CONFIDENCES:
            raise self.error(
                f"{key}.confidence", f"{leaf['confidence']!r} is none of {', '.join(CONFIDENCES)}"
            )
        if leaf["source"] not in self._sources:
            raise self.error(f"{key}.source", f"{leaf['source']!r} is in no table of sources")
        note = str(leaf.get("note", ""))
        if leaf["confidence"] in ("assumed", "derived") and not note:
            raise self.error(f"{key}.note", f"a figure that is {leaf['confidence']} says how")
        return Figure(nan, _text(leaf["value"]), self._sources[leaf["source"]], leaf["confidence"], note)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
