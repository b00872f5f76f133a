"""Kinds of scenario values: whole numbers, fractions, quantities with a unit. Strict, bounded, worded.

Every message says what would be right; the loader puts the position, the field and the value before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

FROM_DOCUMENT: Mapping[str, bool] = {"document": True}
"""Validation context of a file: there a bare number is not a quantity. From Python it is an SI value."""

EXAMPLES = {
    "power": "600 W",
    "bytes": "192 GB",
    "bandwidth": "400 Gbps",
    "frequency": "2100 MHz",
    "time": "13 us",
}


def wrong(expected: str) -> PydanticCustomError:
    """A validation error whose message says what would be right."""
    return PydanticCustomError("expected", "{expected}", {"expected": expected})


def worded(message: str) -> PydanticCustomError:
    """A validation error whose message already names the value."""
    return PydanticCustomError("worded", "{message}", {"message": message})


@dataclass(frozen=True)
class Whole:
    """An integer from ``low`` to ``high``. ``1e3`` is one; ``true``, ``"8"`` and ``1.5`` are not."""

    low: int
    high: int

    def check(self, value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise wrong(f"a whole number from {self.low:,} to {self.high:,}")
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Number:
    """A dimensionless number from ``low`` to ``high``; not ``high`` itself when ``below``."""

    low: float
    high: float
    below: bool = False

    def check(self, value: object) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not self._inside(float(value)):  # type: ignore[arg-type]  # a number by the line above
            raise wrong(f"a number from {self.low:g} to {'below ' if self.below else ''}{self.high:g}")
        return float(value)  # type: ignore[arg-type]

    def _inside(self, value: float) -> bool:
        return self.low <= value < self.high if self.below else self.low <= value <= self.high

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "type": "number",
            "minimum": self.low,
            "exclusiveMaximum" if self.below else "maximum": self.high,
        }


@dataclass(frozen=True)
class Quantity:
    """Text with a unit, such as ``400 Gbps``; an SI float after loading. Bounds are text with units too."""

    dimension: str
    low: str
    high: str

    @cached_property
    def bounds(self) -> tuple[float, float]:
        from hwmodels.units import parse

        return parse(self.low, self.dimension), parse(self.high, self.dimension)

    def check(self, value: object, info: ValidationInfo) -> float:
        number = self._number(value, in_document=bool((info.context or {}).get("document")))
        low, high = self.bounds
        if not low <= number <= high:
            raise wrong(f"a {self.dimension} from {self.low} to {self.high}")
        return number

    def _number(self, value: object, *, in_document: bool) -> float:
        from hwmodels.units import UnitError, parse

        example = f"text with a unit, such as {EXAMPLES[self.dimension]}"
        if isinstance(value, str):
            if len(value) > 100:
                raise wrong(example)
            try:
                return parse(value, self.dimension)
            except UnitError as error:
                raise worded(str(error)) from None
        if in_document or isinstance(value, bool) or not isinstance(value, (int, float)):
            raise wrong(f"a {self.dimension} needs a unit: {example}")
        return float(value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        pattern = r"^\s*[-+]?[0-9.][0-9.eE+-]*\s*[A-Za-zµ/]+\s*$"
        return {"type": "string", "pattern": pattern, "examples": [EXAMPLES[self.dimension]]}


@dataclass(frozen=True)
class Text:
    """Text of one to ``longest`` characters."""

    longest: int
    shortest: int = 1

    def check(self, value: object) -> str:
        if not isinstance(value, str):
            hint = "" if value is None or isinstance(value, (list, dict)) else "; put it in quotes"
            raise wrong(f"text is due here{hint}")
        if not self.shortest <= len(value) <= self.longest:
            raise wrong(f"text of {self.shortest} to {self.longest} characters")
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "minLength": self.shortest, "maxLength": self.longest}


@dataclass(frozen=True)
class LayerChoice:
    """A number of layers, or a list with the ids of layers, each once."""

    number: Whole
    ids: Whole

    def check(self, value: object) -> int | tuple[int, ...]:
        if not isinstance(value, (list, tuple)):
            return self.number.check(value)
        if not value:
            raise wrong("a number of layers, or a list of their ids")
        found = tuple(sorted(self.ids.check(layer) for layer in value))
        if len(set(found)) != len(found):
            raise worded("names each layer once")
        return found

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        number, layer = (
            {"type": "integer", "minimum": bound.low, "maximum": bound.high}
            for bound in (self.number, self.ids)
        )
        return {"anyOf": [number, {"type": "array", "items": layer, "minItems": 1, "uniqueItems": True}]}


@dataclass(frozen=True)
class StageLayers:
    """``auto``, ``balanced``, or a list of layers per pipeline stage."""

    most_stages: int
    layers: Whole

    def check(self, value: object) -> str | tuple[int, ...]:
        if value in ("auto", "balanced"):
            return str(value)
        if not isinstance(value, (list, tuple)) or not 0 < len(value) <= self.most_stages:
            raise wrong("auto, balanced, or a list with the number of layers of each stage")
        return tuple(self.layers.check(layers) for layers in value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        item = {"type": "integer", "minimum": self.layers.low, "maximum": self.layers.high}
        listed = {"type": "array", "items": item, "minItems": 1, "maxItems": self.most_stages}
        return {"anyOf": [{"enum": ["auto", "balanced"]}, listed]}


@dataclass(frozen=True)
class AxisOrder:
    """Names of axes joined by hyphens, such as ``tp-cp-dp-pp``: each at most once."""

    axes: tuple[str, ...]

    @property
    def words(self) -> str:
        return "-".join(self.axes)

    def check(self, value: object) -> str:
        named = value.split("-") if isinstance(value, str) else []
        if not isinstance(value, str) or len(set(named)) != len(named) or not set(named) <= set(self.axes):
            raise wrong(f"axes joined by hyphens, each once, such as {self.words}")
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        one = f"(?:{'|'.join(self.axes)})"
        return {"type": "string", "pattern": f"^{one}(?:-{one})*$", "examples": [self.words]}
