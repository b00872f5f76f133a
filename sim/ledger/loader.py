"""Reads ledger files: ``validation/measured/*.yaml`` or any folder in the same format.

A file holds ``source``, an optional ``scenario`` that every run's own is merged onto, ``runs``, ``set_aside`` (runs
of this scope that are not scored, with reasons) and ``out_of_scope`` (one line about the rest of the source).
"""

from __future__ import annotations

from pathlib import Path

from sim.ledger.fields import FieldReader
from sim.ledger.run import (
    MEMORY_KINDS,
    SPLITS,
    TIME_METRICS,
    LedgerFile,
    Measured,
    MeasuredRun,
    SetAside,
    Source,
)
from sim.scenario.errors import Position, Problem, ScenarioError
from sim.scenario.inheritance import merge
from sim.scenario.yaml_document import Block, Items, Node, decode, parse

FILE_KEYS = ("source", "scenario", "runs", "set_aside", "out_of_scope")
SOURCE_KEYS = ("title", "url", "where", "date", "license")
MEASURED_KEYS = (*TIME_METRICS, "peak_memory_bytes", "memory_kind", "allocated_bytes_by_stage", "goodput")
RUN_KEYS = (
    "id",
    "reference",
    "split",
    "source",
    "scenario",
    "measured",
    "confidence",
    "tuned",
    "untuned_evidence",
    "assumed",
    "note",
    "known_reason",
)


class LedgerError(ScenarioError):
    """Ledger files that cannot be used: all problems of all files, each located."""


def load_directory(directory: Path) -> tuple[LedgerFile, ...]:
    """Every ``*.yaml`` and ``*.yml`` of ``directory``, by name.

    Raises ``FileNotFoundError`` for a folder that is missing and ``LedgerError`` for files with errors, for a
    folder without files and for run ids that two files share.
    """
    if not directory.is_dir():
        raise FileNotFoundError(2, "no such folder of measured runs", str(directory))
    paths = sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml"))
    if not paths:
        raise LedgerError([Problem(Position(str(directory)), "", "holds no *.yaml files of measured runs")])
    files: list[LedgerFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            files.append(load_file(path))
        except ScenarioError as error:
            problems += error.problems
    if problems:
        raise LedgerError(problems)
    _refuse_shared_ids(files)
    return tuple(files)


def load_file(path: Path) -> LedgerFile:
    """One ledger file. Raises ``LedgerError`` with everything that is wrong in it, ``OSError`` if unreadable."""
    problems: list[Problem] = []
    top = FieldReader.of(parse(decode(path.read_bytes(), str(path)), str(path)), "", problems)
    if top is None:
        raise LedgerError(problems)
    top.refuse_unknown(FILE_KEYS)
    source = _source(top, Source(), problems)
    if not (source.title or source.url):
        top.missing("source", "say where the runs come from, e.g. source: {title: ..., url: ...}")
    file = LedgerFile(
        path=str(path),
        source=source,
        runs=_runs(top, source, problems),
        set_aside=_set_aside(top, problems),
        out_of_scope=top.text("out_of_scope"),
    )
    if problems:
        raise LedgerError(problems)
    return file


def _source(reader: FieldReader, base: Source, problems: list[Problem]) -> Source:
    node = reader.node("source")
    fields = None if node is None else FieldReader.of(node, "source", problems)
    if fields is None:
        return base
    fields.refuse_unknown(SOURCE_KEYS)
    return Source(**{key: fields.text(key) or getattr(base, key) for key in SOURCE_KEYS})


def _runs(top: FieldReader, source: Source, problems: list[Problem]) -> tuple[MeasuredRun, ...]:
    shared = top.node("scenario")
    if shared is not None and FieldReader.of(shared, "scenario", problems) is None:
        shared = None
    runs = []
    for index, node in enumerate(_items(top, "runs", problems)):
        reader = FieldReader.of(node, f"runs[{index}]", problems)
        if reader is not None:
            runs.append(_run(reader, shared if isinstance(shared, Block) else None, source, problems))
    if not runs:
        top.missing("runs", "a list of measured runs")
    _refuse_repeated_ids(top, problems)
    return tuple(runs)


def _run(reader: FieldReader, shared: Block | None, source: Source, problems: list[Problem]) -> MeasuredRun:
    reader.refuse_unknown(RUN_KEYS)
    for key, what in (("id", "a stable, descriptive name"), ("split", "fit or check")):
        if reader.entry(key) is None:
            reader.missing(key, what)
    tuned = reader.flag("tuned", default=True)
    if not tuned and not reader.text("untuned_evidence"):
        reader.missing("untuned_evidence", "an untuned run needs the words of its source that show it")
    at = reader.block.position
    return MeasuredRun(
        id=reader.text("id"),
        split=reader.text("split", SPLITS),
        document=_document(reader, shared, problems),
        measured=_measured(reader, problems),
        source=_source(reader, source, problems),
        location=f"{at.source}:{at.line}",
        confidence=reader.text("confidence"),
        tuned=tuned,
        untuned_evidence=reader.text("untuned_evidence"),
        assumed=reader.texts("assumed"),
        note=reader.text("note"),
        known_reason=reader.text("known_reason"),
        reference=reader.text("reference"),
    )


def _document(reader: FieldReader, shared: Block | None, problems: list[Problem]) -> Block:
    node = reader.node("scenario")
    if node is None:
        if shared is None:
            reader.missing("scenario", "the run's scenario (or one for the whole file)")
        return shared or reader.block
    if FieldReader.of(node, f"{reader.path}.scenario", problems) is None or not isinstance(node, Block):
        return reader.block
    return node if shared is None else merge(shared, node)


def _measured(reader: FieldReader, problems: list[Problem]) -> Measured:
    node = reader.node("measured")
    if node is None:
        reader.missing("measured", f"one of {', '.join(MEASURED_KEYS)}")
        return Measured()
    fields = FieldReader.of(node, f"{reader.path}.measured", problems)
    if fields is None:
        return Measured()
    fields.refuse_unknown(MEASURED_KEYS)
    kind = fields.text("memory_kind", MEMORY_KINDS) or None
    if all(fields.entry(key) is None for key in MEASURED_KEYS if key != "memory_kind"):
        fields.missing(TIME_METRICS[0], f"give at least one of {', '.join(MEASURED_KEYS)}")
    return Measured(
        step_time_s=fields.number("step_time_s"),
        tokens_per_s_per_gpu=fields.number("tokens_per_s_per_gpu"),
        samples_per_s=fields.number("samples_per_s"),
        peak_memory_bytes=fields.number("peak_memory_bytes"),
        memory_kind=kind,
        allocated_bytes_by_stage=fields.numbers("allocated_bytes_by_stage"),
        goodput=fields.number("goodput"),
    )


def _set_aside(top: FieldReader, problems: list[Problem]) -> tuple[SetAside, ...]:
    rows = []
    for index, node in enumerate(_items(top, "set_aside", problems)):
        reader = FieldReader.of(node, f"set_aside[{index}]", problems)
        if reader is None:
            continue
        reader.refuse_unknown(("id", "reason"))
        for key in ("id", "reason"):
            if not reader.text(key):
                reader.missing(key, "every run that is set aside has an id and a reason")
        rows.append(SetAside(reader.text("id"), reader.text("reason")))
    return tuple(rows)


def _items(reader: FieldReader, key: str, problems: list[Problem]) -> tuple[Node, ...]:
    node = reader.node(key)
    if node is None:
        return ()
    if isinstance(node, Items):
        return node.values
    problems.append(Problem(node.position, key, "should be a list"))
    return ()


def _refuse_repeated_ids(top: FieldReader, problems: list[Problem]) -> None:
    first: dict[str, int] = {}
    for index, node in enumerate(_items(top, "runs", [])):
        if not isinstance(node, Block) or "id" not in node.entries:
            continue
        entry = node.entries["id"]
        name = str(getattr(entry.value, "value", ""))
        if name in first:
            message = f"{name!r} is already the id of the run at line {first[name]}"
            problems.append(Problem(entry.key_position, f"runs[{index}].id", message))
        first.setdefault(name, entry.key_position.line)


def _refuse_shared_ids(files: list[LedgerFile]) -> None:
    first: dict[str, str] = {}
    problems = []
    for file in files:
        for run in file.runs:
            if run.id in first:
                problems.append(
                    Problem(Position(run.location), "id", f"{run.id!r} is also at {first[run.id]}")
                )
            first.setdefault(run.id, run.location)
    if problems:
        raise LedgerError(problems)
