"""HBM of the worst rank on the run page, and the table by stage of ``sim run --memory``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sim.report.quantities import GIBIBYTE, duration, percent, size, size_range
from sim.report.terminal.bars import ALLOCATED, DEVICE, RESERVED, memory_bar
from sim.results import StageMemory, StepResult

_Fold = tuple[StageMemory, StageMemory]  # first and last of a run of stages with equal figures
BAR_CELLS = 72
PARTS_PER_TABLE = 7  # as many as 100 columns hold
_VERDICT_STYLES = {"fits": "green", "at risk": "yellow", "does not fit": "bold red"}


def memory_summary(result: StepResult) -> Iterator[RenderableType]:
    """Verdict, bar and the three totals of the worst rank."""
    worst = result.worst_memory
    yield _heading(worst, stages=len(result.memory))
    bar = memory_bar(
        worst.allocated_bytes, worst.reserved_bytes[1], worst.device_bytes[1], worst.capacity_bytes, BAR_CELLS
    )
    yield _indented(bar.append(f" {size(worst.capacity_bytes)}"))
    totals = Table.grid(padding=(0, 2, 0, 0))
    share = percent(worst.allocated_bytes / worst.capacity_bytes)
    rows = (
        (ALLOCATED, "allocated", size(worst.allocated_bytes), f"{share} of HBM; peak: {worst.peak_name}"),
        (RESERVED, "reserved", size_range(worst.reserved_bytes), "with the allocator's slack"),
        (DEVICE, "device-used", size_range(worst.device_bytes), "with context and communicators too"),
    )
    for swatch, total, amount, remark in rows:
        totals.add_row(Text.assemble(swatch, f" {total}"), amount, Text(remark, style="dim"))
    yield _indented(totals)
    yield _indented(Text("allocated, in GiB:", style="dim"))
    parts = [
        f"{_words(name)} {_gibibytes(part)}"
        for name, part in worst.parts_bytes.items()
        if _gibibytes(part) != "0.00"
    ]
    yield _indented(Columns([Text(part, style="dim") for part in parts], padding=(0, 3)))


def memory_page(result: StepResult) -> RenderableType:
    """Totals, verdict and named peak by stage, then the parts of each; equal neighbours share a row."""
    worst = result.worst_memory
    folded = list(_fold(result.memory))
    capacity = Text(f"in GiB; one GPU has {size(worst.capacity_bytes)} of HBM", style="dim")
    heading = _heading(worst, stages=len(result.memory))
    parts: list[RenderableType] = []
    for names in _chunks(_parts_that_show(folded)):
        parts += [Text(), _parts_table(folded, names)]
    return Group(heading, capacity, Text(), _totals_table(result, folded), Text(), *_peaks(folded), *parts)


def _totals_table(result: StepResult, folded: Sequence[_Fold]) -> Table:
    table = _table()
    table.add_column("stage", no_wrap=True)
    table.add_column("first rank", no_wrap=True)
    for total in ("allocated", "reserved", "device-used"):
        table.add_column(total, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("peak", style="dim")
    numbers = _peak_numbers(folded)
    for first, last in folded:
        ranges = [
            size_range(bounds).removesuffix(" GiB") for bounds in (first.reserved_bytes, first.device_bytes)
        ]
        verdict = Text(first.verdict, style=_VERDICT_STYLES[first.verdict])
        moment = result.memory_peak(first.stage)
        when = "" if moment is None else f" at {duration(moment.start_s)}"
        peak = f"[{numbers[_what(first)]}]{when}"
        table.add_row(
            _stages(first, last), str(first.rank), _gibibytes(first.allocated_bytes), *ranges, verdict, peak
        )
    return table


def _peak_numbers(folded: Sequence[_Fold]) -> dict[str, int]:
    names = dict.fromkeys(_what(first) for first, _ in folded)
    return {name: number for number, name in enumerate(names, start=1)}


def _what(stage: StageMemory) -> str:
    """The peak's name without the micro-batch, which differs from stage to stage."""
    return stage.peak_name.split(", micro-batch ")[0]


def _peaks(folded: Sequence[_Fold]) -> Iterator[RenderableType]:
    for name, number in _peak_numbers(folded).items():
        yield Text(f"[{number}] peak at {name}", style="dim")


def _parts_that_show(folded: Sequence[_Fold]) -> list[str]:
    """Names of parts that are not 0.00 GiB on every stage, in their order."""
    return list(
        dict.fromkeys(
            name
            for first, _ in folded
            for name, part in first.parts_bytes.items()
            if _gibibytes(part) != "0.00"
        )
    )


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), PARTS_PER_TABLE):
        yield names[start : start + PARTS_PER_TABLE]


def _parts_table(folded: Sequence[_Fold], names: Sequence[str]) -> Table:
    table = _table()
    table.add_column("stage", no_wrap=True)
    for name in names:
        table.add_column(_words(name), justify="right")
    for first, last in folded:
        table.add_row(_stages(first, last), *(_gibibytes(first.parts_bytes.get(name, 0.0)) for name in names))
    return table


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _stages(first: StageMemory, last: StageMemory) -> str:
    return str(first.stage) if first is last else f"{first.stage}–{last.stage}"


def _gibibytes(count: float) -> str:
    return f"{count / GIBIBYTE:,.2f}"


def _fold(stages: tuple[StageMemory, ...]) -> Iterator[_Fold]:
    """Runs of neighbours with equal figures, as (first, last)."""
    first = last = stages[0]
    for stage in stages[1:]:
        if _figures(stage) != _figures(first):
            yield first, last
            first = stage
        last = stage
    yield first, last


def _figures(stage: StageMemory) -> tuple[object, ...]:
    return (
        dict(stage.parts_bytes),
        stage.allocated_bytes,
        stage.device_bytes,
        stage.verdict,
        stage.peak_name,
    )


def _heading(worst: StageMemory, stages: int) -> Text:
    where = f"rank {worst.rank}" + (f", stage {worst.stage}" if stages > 1 else "")
    verdict = (worst.verdict, _VERDICT_STYLES[worst.verdict])
    return Text.assemble(("Memory of the worst rank ", "bold"), f"({where}): ", verdict)


def _indented(content: RenderableType) -> RenderableType:
    return Padding(content, (0, 0, 0, 2))
