"""Comma-separated rows under a header, matched by name: benchmark versions move their columns about."""

from __future__ import annotations

from dataclasses import dataclass

from sim.interop.lines import Line
from sim.interop.printed import Printed, is_missing, printed, shown


@dataclass(frozen=True)
class Row:
    """One data row. A column that the header lacks, or a field left empty, is no figure."""

    line: Line
    fields: dict[str, str]

    def text(self, name: str) -> str:
        """The field as text; empty when absent or marked as missing."""
        text = self.fields.get(name, "")
        return "" if is_missing(text) else text

    def number(self, *names: str) -> Printed | None:
        """The first of ``names`` that has a figure. Raises ``LogError`` for a field that is no number."""
        for name in names:
            text = self.fields.get(name, "")
            try:
                found = printed(text)
            except ValueError:
                raise self.line.error(f"{name} is {shown(text)}: a number is due here") from None
            if found is not None:
                return found
        return None

    def value(self, *names: str, scale: float = 1.0) -> float | None:
        """The figure in SI units."""
        found = self.number(*names)
        return None if found is None else found.value * scale

    def required(self, name: str, scale: float = 1.0) -> float:
        found = self.value(name, scale=scale)
        if found is None:
            raise self.line.error(f"{name} is missing: a number is due here")
        return found

    def count(self, name: str) -> int:
        """A whole number above zero."""
        value = self.required(name)
        if value != int(value) or value < 1:
            raise self.line.error(f"{name} is {shown(self.fields[name])}: a whole number above 0 is due here")
        return int(value)


def names_of(text: str) -> tuple[str, ...]:
    """The column names of a header line."""
    return tuple(name.strip() for name in text.split(","))


def row_of(line: Line, header: tuple[str, ...]) -> Row:
    """``line`` under ``header``. Raises ``LogError`` for another number of fields: a row cut off."""
    fields = [field.strip() for field in line.text.split(",")]
    if len(fields) != len(header):
        raise line.error(
            f"a row of {len(fields)} fields, the header names {len(header)}: is the log cut off or edited?"
        )
    return Row(line, dict(zip(header, fields, strict=True)))
