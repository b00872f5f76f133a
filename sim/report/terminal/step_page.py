"""What ``sim run`` prints: one step, in words, figures, causes and memory, with what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sim.causes import BY_KEY, CAUSES
from sim.report.quantities import duration, percent, significant, teraflops, time_unit, tokens
from sim.report.terminal.bars import bar
from sim.report.terminal.memory_page import memory_summary
from sim.report.terminal.spread_lines import spread_lines
from sim.results import Source, StepResult

BAR_CELLS = 40
LABEL_CELLS = 23


def step_page(result: StepResult) -> RenderableType:
    """The whole page of one result."""
    parts: list[RenderableType] = [headline(result), Text(), _figures(result), *_range_basis(result)]
    parts += [Text(), _heading("Where the step goes"), *_breakdown(result)]
    if result.spread is not None:
        parts += [Text(), _heading("How steps differ"), *spread_lines(result.spread)]
    parts += [Text(), *memory_summary(result)]
    parts += [Text(), _bottleneck(result)]
    parts += _notes("Warnings", result.warnings, "yellow")
    parts += _notes("Assumed", result.assumed, "default")
    parts += _sources(result.sources)
    parts += [Text(), Text(f"scenario {result.scenario_hash} · trainsim {result.version}", style="dim")]
    return Group(*parts)


def headline(result: StepResult) -> RenderableType:
    """Name; model · tokens · GPUs · plan; software stack with its date."""
    words = (
        result.model_title,
        f"{tokens(result.tokens_per_step)} {result.counted} per step",
        f"{result.gpus:,} × {result.gpu}",
        plan_words(result),
    )
    stack = Text(f"software: {result.stack} of {result.stack_date}")
    return Group(Text(result.scenario_name, style="bold"), Text(" · ".join(words)), stack)


def plan_words(result: StepResult) -> str:
    """The degrees above one and how data parallelism shards: ``tp8 pp16 dp128 zero-1``."""
    degrees = [
        f"{axis}{result.layout[axis]}"
        for axis in ("tp", "cp", "pp", "ep", "dp")
        if result.layout.get(axis, 1) != 1
    ]
    return " ".join([*degrees, str(result.layout.get("data_sharding", ""))]).strip() or "one GPU"


def _figures(result: StepResult) -> RenderableType:
    counted = f"model FLOPs, {result.mfu_convention} convention; recomputation not counted"
    peak = f"of {teraflops(result.mfu_peak_flops)}, the {result.mfu_peak_name}"
    rows = (
        ("step time", duration(result.step_time_s), _range(result)),
        (
            f"{result.counted}/s/GPU",
            significant(result.tokens_per_s_per_gpu),
            f"{tokens(result.tokens_per_s)} {result.counted}/s in all",
        ),
        ("TFLOP/s/GPU", significant(result.tflops_per_gpu), counted),
        ("MFU", percent(result.mfu), peak),
    )
    table = _grid()
    table.add_column(style="dim", width=LABEL_CELLS)
    table.add_column(justify="right", style="bold", width=10)
    table.add_column(style="dim")
    for label, figure, remark in rows:
        table.add_row(label, figure, remark)
    return _indented(table)


def _range(result: StepResult) -> str:
    """``90 %: 10.1–11.9 s (new scale)``, in the unit of the step time."""
    if result.range_90 is None:
        return "no range: no published run says how far off such a prediction may be"
    scale, unit = time_unit(result.step_time_s)
    low, high = (significant(seconds / scale) for seconds in (result.range_90.low_s, result.range_90.high_s))
    return f"90 %: {low}–{high} {unit} ({result.range_90.kind})"


def _range_basis(result: StepResult) -> list[RenderableType]:
    return (
        [] if result.range_90 is None else [_indented(Text(f"range: {result.range_90.basis}", style="dim"))]
    )


def _breakdown(result: StepResult) -> Iterator[RenderableType]:
    scale, unit = time_unit(result.step_time_s)
    table = _grid()
    table.add_column(width=LABEL_CELLS)
    table.add_column(width=BAR_CELLS)
    table.add_column(justify="right", width=11)
    table.add_column(justify="right", width=8)
    longest = max(result.breakdown_s.values())
    for cause, seconds in _in_order(result):
        known = BY_KEY.get(cause)
        label, colour = (known.label, known.colour) if known else (cause, "default")
        share = seconds / result.step_time_s
        table.add_row(
            label, bar(seconds / longest, BAR_CELLS, colour), f"{seconds / scale:,.3f} {unit}", percent(share)
        )
    table.add_row("step", "", f"{result.step_time_s / scale:,.3f} {unit}", percent(1.0), style="bold")
    yield _indented(table)
    hidden = [
        f"{_label(cause)} {duration(seconds)}" for cause, seconds in result.hidden_s.items() if seconds > 0
    ]
    if hidden:
        yield _indented(Text("hidden under compute, not in the step: " + ", ".join(hidden), style="dim"))


def _in_order(result: StepResult) -> Iterator[tuple[str, float]]:
    """Causes with time, known ones in their fixed order, then any others."""
    known = [cause.key for cause in CAUSES]
    for key in [*known, *(key for key in result.breakdown_s if key not in known)]:
        if result.breakdown_s.get(key, 0.0) > 0:
            yield key, result.breakdown_s[key]


def _label(cause: str) -> str:
    return BY_KEY[cause].label if cause in BY_KEY else cause


def _bottleneck(result: StepResult) -> RenderableType:
    return Text.assemble(("Bottleneck  ", "bold"), result.bottleneck)


def _notes(title: str, notes: Sequence[str], style: str) -> list[RenderableType]:
    if not notes:
        return []
    return [Text(), _heading(title), *(_bullet(Text(note, style=style)) for note in notes)]


def _sources(sources: Sequence[Source]) -> list[RenderableType]:
    """One item per publication: the catalog entries that it supports, its title, confidence and address."""
    if not sources:
        return []
    by_publication: dict[tuple[str, str], list[Source]] = {}
    for source in sources:
        by_publication.setdefault((source.title, source.url), []).append(source)
    lines = [_bullet(_publication(title, url, cited)) for (title, url), cited in by_publication.items()]
    return [Text(), _heading(f"Sources ({len(sources)} figures; --json lists each)"), *lines]


def _publication(title: str, url: str, cited: Sequence[Source]) -> Text:
    entries = ", ".join(dict.fromkeys(source.entry for source in cited))
    confidence = "/".join(dict.fromkeys(source.confidence for source in cited))
    words = Text.assemble(f"{entries}: {title}", (f" ({confidence})", "dim"))
    return words.append(f"\n{url}", style="dim") if url else words


def _grid() -> Table:
    return Table.grid(padding=(0, 2, 0, 0))


def _heading(title: str) -> Text:
    return Text(title, style="bold")


def _indented(content: RenderableType) -> RenderableType:
    return Padding(content, (0, 0, 0, 2))


def _bullet(words: Text) -> RenderableType:
    row = Table.grid()
    row.add_column(width=4)
    row.add_column(overflow="fold")
    row.add_row("  - ", words)
    return row
