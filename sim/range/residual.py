"""One measured configuration and how far its prediction was off: a row of ``validation/residuals.csv``."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sim.range.case import Case

OWN_COLUMNS = ("runs", "split")
VALUE_COLUMN = "log_predicted_over_measured"
DECIMALS = 5
_TAGS = {field.name: str(field.type) for field in fields(Case)}
COLUMNS = (*OWN_COLUMNS, *_TAGS, VALUE_COLUMN)


@dataclass(frozen=True)
class Residual:
    """``value`` is the natural logarithm of predicted over measured step time: negative is too fast.

    ``runs`` are the ids of all runs of the configuration, ``split`` is fit or check.
    """

    runs: tuple[str, ...]
    split: str
    case: Case
    value: float


def read_residuals(text: str) -> tuple[Residual, ...]:
    """Rows of the CSV ``text``. Raises ``ValueError`` naming what is wrong, with its line."""
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ValueError(f"residuals: columns are {reader.fieldnames}, should be {list(COLUMNS)}")
    return tuple(_row(row, reader.line_num) for row in reader)


def write_residuals(rows: Iterable[Residual]) -> str:
    """The CSV text that ``read_residuals`` reads; values with five decimals."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        tags = [_written(getattr(row.case, tag)) for tag in _TAGS]
        writer.writerow([" ".join(row.runs), row.split, *tags, f"{row.value:.{DECIMALS}f}"])
    return out.getvalue()


def _row(row: Mapping[str, str], line: int) -> Residual:
    try:
        case = Case(**{tag: _READERS[kind](row[tag]) for tag, kind in _TAGS.items()})
        return Residual(tuple(row["runs"].split()), row["split"], case, float(row[VALUE_COLUMN]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"residuals, line {line}: {error}") from error


def _flag(word: str) -> bool:
    if word not in ("yes", "no"):
        raise ValueError(f"{word!r} is neither yes nor no")
    return word == "yes"


def _written(tag: object) -> str:
    return {True: "yes", False: "no"}[tag] if isinstance(tag, bool) else str(tag)


_READERS: Mapping[str, Callable[[str], Any]] = {"str": str, "int": int, "bool": _flag}
