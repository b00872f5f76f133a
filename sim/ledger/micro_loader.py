"""Reads ``validation/micro/*.yaml``: groups of rows that share a source and further facts.

A file holds ``benchmark`` and ``groups``; a group holds ``source``, ``shared`` (what each row is merged
onto) and ``rows``. Every row must end up with kind, confidence and split.
"""

from __future__ import annotations

from pathlib import Path

from sim.ledger.fields import FieldReader
from sim.ledger.loader import SOURCE_KEYS, LedgerError
from sim.ledger.micro_fields import COMMON_KEYS, KEYS, figure, subject
from sim.ledger.micro_row import CONFIDENCES, KINDS, MicroFile, MicroRow
from sim.ledger.run import SPLITS, Source
from sim.scenario.errors import Position, Problem, ScenarioError
from sim.scenario.inheritance import merge
from sim.scenario.yaml_document import Block, Items, Node, decode, parse


def load_micro(directory: Path) -> tuple[MicroFile, ...]:
    """Every ``*.yaml`` of ``directory``, by name.

    Raises ``FileNotFoundError`` for a missing folder and ``LedgerError`` with all problems of all files.
    """
    if not directory.is_dir():
        raise FileNotFoundError(2, "no such folder of micro-benchmarks", str(directory))
    paths = sorted(directory.glob("*.yaml"))
    if not paths:
        raise LedgerError(
            [Problem(Position(str(directory)), "", "holds no *.yaml files of micro-benchmarks")]
        )
    files: list[MicroFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            files.append(load_micro_file(path))
        except ScenarioError as error:
            problems += error.problems
    if problems:
        raise LedgerError(problems)
    return tuple(files)


def load_micro_file(path: Path) -> MicroFile:
    """One file. Raises ``LedgerError`` with everything that is wrong in it, ``OSError`` if unreadable."""
    problems: list[Problem] = []
    top = FieldReader.of(parse(decode(path.read_bytes(), str(path)), str(path)), "", problems)
    if top is None:
        raise LedgerError(problems)
    top.refuse_unknown(("benchmark", "groups"))
    benchmark = top.text("benchmark", tuple(KEYS))
    if not benchmark:
        top.missing("benchmark", f"one of {', '.join(KEYS)}")
    rows: list[MicroRow] = []
    if benchmark:
        for index, node in enumerate(_items(top, "groups")):
            group = FieldReader.of(node, f"groups[{index}]", problems)
            if group is not None:
                rows += _group(group, benchmark)
    if not rows and not problems:
        top.missing("groups", "a list of groups of rows")
    if problems:
        raise LedgerError(problems)
    return MicroFile(str(path), benchmark, tuple(rows))


def _group(group: FieldReader, benchmark: str) -> list[MicroRow]:
    group.refuse_unknown(("source", "shared", "rows"))
    source = _source(group)
    shared = group.node("shared")
    rows = []
    for index, node in enumerate(_items(group, "rows")):
        reader = FieldReader.of(node, f"{group.path}.rows[{index}]", group.problems)
        if reader is None or not isinstance(node, Block):
            continue
        at = node.position
        if isinstance(shared, Block):
            reader = FieldReader(merge(shared, node), reader.path, group.problems)
        rows.append(_row(reader, benchmark, source, f"{Path(at.source).name}:{at.line}"))
    if not rows:
        group.missing("rows", "a list of measured figures")
    return rows


def _source(group: FieldReader) -> Source:
    node = group.node("source")
    fields = None if node is None else FieldReader.of(node, f"{group.path}.source", group.problems)
    if fields is None:
        group.missing("source", "say where the figures come from, e.g. source: {title: ..., url: ...}")
        return Source()
    fields.refuse_unknown(SOURCE_KEYS)
    if not fields.text("title"):
        fields.missing("title", "the name of the source")
    return Source(**{key: fields.text(key) for key in SOURCE_KEYS})


def _row(reader: FieldReader, benchmark: str, source: Source, location: str) -> MicroRow:
    reader.refuse_unknown((*COMMON_KEYS, *KEYS[benchmark]))
    for key, choices in (("kind", KINDS), ("confidence", CONFIDENCES), ("split", SPLITS)):
        if reader.entry(key) is None:
            reader.missing(key, f"one of {', '.join(choices)}")
    set_aside = reader.text("set_aside")
    used = not set_aside
    what = subject(benchmark, reader) if used else None
    value, unit = figure(reader, what) if what is not None else (0.0, "")
    return MicroRow(
        benchmark=benchmark,
        subject=what,
        value=value,
        unit=unit,
        kind=reader.text("kind", KINDS),
        confidence=reader.text("confidence", CONFIDENCES),
        split=reader.text("split", SPLITS),
        source=source,
        location=location,
        library=reader.text("library"),
        overhead_s=(reader.number("overhead_us") or 0.0) * 1e-6,
        issue_s=(reader.number("issue_us") or 0.0) * 1e-6,
        in_place=reader.flag("in_place", default=False),
        set_aside=set_aside,
        note=reader.text("note"),
    )


def _items(reader: FieldReader, key: str) -> tuple[Node, ...]:
    node = reader.node(key)
    if node is None:
        return ()
    if isinstance(node, Items):
        return node.values
    reader.problems.append(Problem(node.position, key, "should be a list"))
    return ()
