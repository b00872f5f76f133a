"""A stack file in the catalog's format: the base, and each fitted figure with its source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hwmodels.stack import StackProfile
from sim.calibrate.fit import Fitted

DIGITS = 4


def rounded(value: float) -> float:
    """The value as the file will say it."""
    return float(f"{value:.{DIGITS}g}")


def with_figures(stack: StackProfile, fitted: Sequence[Fitted]) -> StackProfile:
    """``stack`` with the fitted figures, as the written file will have them."""
    for figure in fitted:
        key, _, entry = figure.key.partition(".")
        value = rounded(figure.value)
        changed = {**getattr(stack, key), entry: value} if entry else value
        stack = replace(stack, **{key: changed})  # type: ignore[arg-type]  # fields by their names
    return stack


def to_yaml(
    name: str,
    date: str,
    gpu: str,
    base: str,
    tuned: bool,
    fitted: Sequence[Fitted],
    formats: Mapping[str, str],
) -> str:
    """Text of the file. ``formats`` says what each log is."""
    logs = list(dict.fromkeys(log for figure in fitted for log in figure.logs))
    keys = _source_keys(logs)
    lines = [
        f"name: {name}",
        f"title: {_quoted(title(fitted, base))}",
        f"date: {date}",
        f"gpus: [{gpu}]",
        f"inherits: {_quoted(base)}",
        f"tuned: {'true' if tuned else 'false'}",
        "sources:",
    ]
    lines += [f"  {keys[log]}: {{title: {_quoted(f'{formats[log]}: {Path(log).name}')}}}" for log in logs]
    tables: dict[str, list[str]] = {}
    for figure in fitted:
        table, _, entry = figure.key.partition(".")
        tables.setdefault(table, []).append(
            f"{'  ' + entry if entry else table}: {_figure(figure, base, keys)}"
        )
    for table, entries in tables.items():
        lines += [f"{table}:", *entries] if entries[0].startswith(" ") else entries
    return "\n".join(lines) + "\n"


def title(fitted: Sequence[Fitted], base: str) -> str:
    logs = len({log for figure in fitted for log in figure.logs})
    return f"Calibrated from {'1 log' if logs == 1 else f'{logs} logs'} on top of {Path(base).name}"


def _figure(figure: Fitted, base: str, keys: Mapping[str, str]) -> str:
    before = "none" if figure.before is None else f"{figure.before:g}"
    names = ", ".join(Path(log).name for log in figure.logs)
    note = f"fitted: {figure.note}; {names}; {before} in {base}"
    value = f"{figure.value:.{DIGITS}g}"
    return f'{{value: "{value}", source: {keys[figure.logs[0]]}, confidence: derived, note: {_quoted(note)}}}'


def _source_keys(logs: Sequence[str]) -> dict[str, str]:
    keys: dict[str, str] = {}
    for log in logs:
        stem = "log-" + (re.sub(r"[^a-z0-9]+", "-", Path(log).stem.lower()).strip("-") or "file")
        key, number = stem, 2
        while key in keys.values():
            key, number = f"{stem}-{number}", number + 1
        keys[log] = key
    return keys


def _quoted(text: str) -> str:
    """A YAML double-quoted scalar; JSON's escapes are YAML's."""
    return json.dumps(text)
