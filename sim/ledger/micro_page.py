"""The micro-ledger as a page: ``docs/micro.md`` and its plots.

``python -m sim.ledger.micro_page`` rewrites them; a test holds them to the ledger. Errors are rounded to whole
percents and coordinates to whole pixels, so that the page is the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from sim.ledger.micro import MicroReport, MicroStatistic, ScoredRow, by_kernel, score, validate_micro
from sim.ledger.micro_left_out import known_by_links
from sim.ledger.micro_machines import Machines
from sim.ledger.micro_plots import plots
from sim.ledger.must_show import targets

MICRO_PAGE = "docs/micro.md"
PLOTS = "docs/micro"
UNITS = {
    "FLOP/s": (1e12, "TFLOP/s"),
    "B/s": (1e9, "GB/s"),
    "Hz": (1e6, "MHz"),
    "s": (1e-6, "µs"),
    "x": (1.0, "×"),
}
INTRODUCTION = """\
Generated from `validation/micro/` by `python -m sim.ledger.micro_page`; do not edit.

Every published micro-benchmark beside what the models of `hwmodels/` say of it, with the figures of the catalog and
the newest stack of each GPU, a GEMM efficiency of 1 and no framework. Errors are ln(predicted rate / measured rate):
positive is too fast. *Check* rows are those that no figure of a machine was read off. Six constants of attention and
four of the collective protocols are shared by all machines and were fitted on all rows; *left out* means that what was
fitted is fitted again without the machine, and what was read off it comes from the others. Acceptance floors are
lower bounds: they count only where the prediction lies below them. What a harness adds to each call (a launch between
two events, a host that cannot issue faster) stands in the rows and is part of the prediction."""


def micro_markdown(report: MicroReport) -> str:
    """Markdown of ``docs/micro.md``."""
    parts = ["# Micro-benchmarks: predicted against measured", "", INTRODUCTION, ""]
    parts += [
        "## What must be shown",
        "",
        _targets(report),
        "",
        "## By kernel and machine",
        "",
        _errors(report),
        "",
        _without_harness(report),
        "",
        _known_by_links(report),
        "",
    ]
    for name, (title, _) in plots(report, Machines()).items():
        parts += [f"![{title}](micro/{name}.svg)", ""]
    parts += [
        "## Largest misses",
        "",
        _rows(report.worst),
        "",
        "## Acceptance floors",
        "",
        *_floors(report),
        "",
    ]
    parts += ["## Set aside", "", *_set_aside(report)]
    return "\n".join(parts) + "\n"


def _targets(report: MicroReport) -> str:
    rows = []
    for target in targets(report):
        wanted = f"at most {target.high:g}" if target.low == 0 else f"{target.low:.3g} to {target.high:.3g}"
        rows.append((target.words, wanted, f"{target.value:.3g}", "yes" if target.reached else "**no**"))
    return _table(("figure", "wanted", "predicted", "reached"), rows)


def _errors(report: MicroReport) -> str:
    left_out, rows = by_kernel(report.left_out), []
    for kernel, members in by_kernel(report.check).items():
        others = left_out.get(kernel, [])
        rows.append(_error_row(f"**{kernel}**", members, others))
        for machine in sorted({row.machine for row in members}):
            own = [row for row in members if row.machine == machine]
            rows.append(_error_row(machine, own, [row for row in others if row.machine == machine]))
    return _table(("kernel, machine", "check rows", "mean absolute error", "bias", "left out"), rows)


def _error_row(name: str, members: Iterable[ScoredRow], others: Iterable[ScoredRow]) -> tuple[str, ...]:
    own, left_out = MicroStatistic.of(members), MicroStatistic.of(others)
    if own is None:
        return (name, "0", "", "", "")
    beside = "" if left_out is None else f"{left_out.mean_absolute:.0%} ({left_out.rows} rows)"
    return (name, str(own.rows), f"{own.mean_absolute:.0%}", _signed(own.bias), beside)


def _without_harness(report: MicroReport) -> str:
    """How much the harness figures decide: they are assumed, and small shapes hang on them."""
    bare = score((replace(row.row, overhead_s=0.0, issue_s=0.0) for row in report.check), Machines())
    gemm = MicroStatistic.of(row for row in bare if row.kernel == "GEMM")
    if gemm is None:
        return ""
    return (
        f"With nothing assumed about the harness (`overhead_us`, `issue_us`) the GEMM error is {gemm.mean_absolute:.0%}: "
        "those figures were read off the smallest shape of each source, less the time a model gives its kernel."
    )


def _known_by_links(report: MicroReport) -> str:
    """What is left when floor, half-bandwidth size and plateau of a node are other nodes' too."""
    curves = MicroStatistic.of(known_by_links([row.row for row in report.measured]))
    if curves is None:
        return ""
    return (
        "With nothing known of a node but its data-sheet link rate (floor, half-bandwidth size and plateau from the other "
        f"nodes of its kind) the error of all-reduce inside it is {curves.mean_absolute:.0%} ({curves.rows} rows)."
    )


def _rows(rows: Sequence[ScoredRow]) -> str:
    return _table(("row", "measured", "predicted", "error", "where"), [_row(row) for row in rows])


def _row(row: ScoredRow) -> tuple[str, ...]:
    scale, unit = UNITS[row.row.unit]
    predicted = "" if row.predicted is None else f"{row.predicted / scale:.3g}"
    error = "" if row.error is None else _signed(row.error)
    return (row.row.label, f"{row.row.value / scale:.4g} {unit}", predicted, error, row.row.location)


def _floors(report: MicroReport) -> list[str]:
    lines = [f"{len(report.floors)} floors, {len(report.violated_floors)} of them above the prediction.", ""]
    return [*lines, _rows(report.violated_floors)] if report.violated_floors else lines


def _set_aside(report: MicroReport) -> list[str]:
    """Each reason once, with the number of rows and the files that they stand in."""
    counts = Counter((row.location.partition(":")[0], row.set_aside) for row in report.set_aside)
    failures = [f"- not predicted: {row.row.label}: {row.failure}" for row in report.rows if row.failure]
    return [
        f"- {file}, {count} row{'s' if count > 1 else ''}: {reason}"
        for (file, reason), count in counts.items()
    ] + failures


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, rule, *rows)
    )


def _signed(error: float) -> str:
    return f"{round(100 * error):+d}%"


def pages(report: MicroReport) -> dict[str, str]:
    """Path below the checkout to content, for the page and its plots."""
    drawn = {f"{PLOTS}/{name}.svg": svg for name, (_, svg) in plots(report, Machines()).items()}
    return {MICRO_PAGE: micro_markdown(report), **drawn}


def main() -> None:
    """Rewrites the pages of the checkout that this module lies in."""
    root = Path(__file__).resolve().parents[2]
    (root / PLOTS).mkdir(parents=True, exist_ok=True)
    for path, content in pages(validate_micro()).items():
        (root / path).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
