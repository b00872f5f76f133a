"""The ledger as pages: the accuracy table of the README, ``docs/accuracy.md``, the fitted figures of ``docs/models.md``.

``python -m sim.ledger.markdown`` rewrites all three. README and models page keep their text; only what stands between
the two markers changes. A test holds the pages to the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.ledger.fitted import write_fitted
from sim.ledger.report import LedgerReport, validate
from sim.ledger.run import LedgerFile
from sim.ledger.summary import Configuration, Statistic, by_family

BEGIN, END = "<!-- accuracy:begin -->", "<!-- accuracy:end -->"
ACCURACY_PAGE = "docs/accuracy.md"
INTRODUCTION = (
    "Generated from `validation/measured/` by `python -m sim.ledger.markdown`; do not edit. The rule that splits "
    "runs into *fit* and *check* is in `validation/README.md`. Errors are predicted over measured step time, "
    "minus one: negative is too fast. Runs of one configuration at several sites count once, by their mean."
)

Row = Sequence[str]


def accuracy_table(report: LedgerReport) -> str:
    """Markdown for the README: errors on runs never used for fitting, by GPU, tuned and untuned apart."""
    check = [c for c in report.configurations if c.first.run.split == "check"]
    tuned = [c for c in check if c.first.run.tuned and not c.first.recommender]
    untuned = [c for c in check if not c.first.run.tuned]
    recommenders = [c for c in check if c.first.run.tuned and c.first.recommender]
    rows = [_statistic_row(f"**{gpu.upper()}**", members) for gpu, members in _by_gpu(tuned)]
    rows += [
        _statistic_row("all, tuned stacks", tuned),
        _statistic_row("all, tuned stacks, without LoRA", [c for c in tuned if not c.first.lora]),
        _statistic_row("untuned runs", untuned),
        *(_statistic_row(family, members) for family, members in by_family(recommenders).items()),
    ]
    head = ("check runs on", "configurations", "runs", "mean absolute error", "worst")
    return "\n".join([_table(head, [row for row in rows if row]), "", *_remarks(report)])


def accuracy_page(report: LedgerReport) -> str:
    """Markdown of ``docs/accuracy.md``: every configuration with its error, then what was set aside and why."""
    parts = ["# Accuracy: predicted against measured", "", INTRODUCTION, "", accuracy_table(report)]
    for file in report.files:
        parts += ["", *_file_section(file, report)]
    return "\n".join(parts) + "\n"


def with_table(readme: str, table: str) -> str:
    """``readme`` with ``table`` between the markers. Raises ``ValueError`` when they are missing."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"README.md needs the markers {BEGIN} and {END}, in this order, each on its own line"
        )
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def readme_block(report: LedgerReport) -> str:
    """What stands between the markers of the README."""
    return f"{accuracy_table(report)}\n\nEvery run, with its source and what was assumed: [{ACCURACY_PAGE}]({ACCURACY_PAGE})."


def write_pages(root: Path, report: LedgerReport) -> None:
    """Rewrites ``docs/accuracy.md`` and the tables in README and ``docs/models.md`` of the checkout at ``root``."""
    page = root / ACCURACY_PAGE
    page.parent.mkdir(exist_ok=True)
    page.write_text(accuracy_page(report), encoding="utf-8")
    readme = root / "README.md"
    readme.write_text(with_table(readme.read_text(encoding="utf-8"), readme_block(report)), encoding="utf-8")
    write_fitted(root, report)


def _by_gpu(members: Iterable[Configuration]) -> list[tuple[str, list[Configuration]]]:
    """AMD first (``mi…``), then the others, by name."""
    groups: dict[str, list[Configuration]] = {}
    for member in members:
        groups.setdefault(member.first.gpu, []).append(member)
    return sorted(groups.items(), key=lambda item: (not item[0].startswith("mi"), item[0]))


def _statistic_row(name: str, members: Sequence[Configuration]) -> Row:
    statistic = Statistic.of(members)
    if statistic is None:
        return ()
    counts = (str(statistic.configurations), str(statistic.runs))
    return (name, *counts, f"{statistic.mape:.1%}", f"{statistic.worst:+.1%} (`{statistic.worst_id}`)")


def _remarks(report: LedgerReport) -> list[str]:
    """What the table leaves out: fitted configurations, memory, runs without a prediction."""
    remarks = []
    fit = Statistic.of([c for c in report.configurations if c.first.run.split == "fit"])
    if fit:
        remarks.append(
            f"- {fit.configurations} configurations were used for fitting and are not in the table."
        )
    memory = report.summary["memory"]
    if memory:
        remarks.append(
            f"- Allocated memory, {memory['stages']} measured pipeline stages: mean absolute error "
            f"{memory['mape']:.3%}, worst {memory['worst']:+.3%}."
        )
    remarks += _range_remark(report.coverage)
    failed = report.summary["not_predicted"]
    if failed:
        remarks.append(f"- Without a prediction: {failed} runs.")
    return remarks


def _range_remark(found: Mapping[str, Any]) -> list[str]:
    """The share of check configurations in their range, each judged by the others."""
    if not found:
        return []
    inside = f"{found['inside']} of {found['configurations']} check configurations ({found['share']:.0%})"
    return [f"- Inside its 90 % range, judged by the others: {inside}."]


def _file_section(file: LedgerFile, report: LedgerReport) -> list[str]:
    source = file.source
    title = f"[{source.title or source.url}]({source.url})" if source.url else source.title
    facts = "; ".join(part for part in (source.where, source.date, source.license) if part)
    parts = [f"## {Path(file.path).stem}", "", f"{title}. {facts}" if facts else title, ""]
    ids = {run.id for run in file.runs}
    members = [c for c in report.configurations if c.first.run.id in ids]
    head = ("configuration", "split", "GPUs", "stack", "measured s", "predicted s", "error")
    if members:
        parts += [_table(head, [_configuration_row(c) for c in members])]
    parts += _run_remarks(members)
    failures = [run for run in report.runs if run.run.id in ids and run.failure]
    parts += [f"- not predicted: `{run.run.id}`: {_cell(run.failure)}" for run in failures]
    parts += [f"- set aside: {row.id}: {_cell(row.reason)}" for row in file.set_aside]
    parts += [f"- out of scope: {_cell(file.out_of_scope)}"] if file.out_of_scope else []
    return parts


def _configuration_row(configuration: Configuration) -> Row:
    first = configuration.first
    sites = f" (+{len(configuration.runs) - 1} more runs)" if len(configuration.runs) > 1 else ""
    return (
        f"`{first.run.id}`{sites}",
        first.run.split + ("" if first.run.tuned else ", untuned"),
        f"{first.n_gpus:,} {first.gpu.upper()}",
        first.stack,
        f"{configuration.measured_step_s:.4g}",
        f"{configuration.predicted_step_s:.4g}",
        f"{configuration.error:+.1%}",
    )


def _run_remarks(members: Iterable[Configuration]) -> list[str]:
    """Assumptions and notes, each once, with the runs that they belong to."""
    texts: dict[str, list[str]] = {}
    for configuration in members:
        for scored in configuration.runs:
            remarks = [f"assumed {text}" for text in scored.run.assumed]
            remarks += [scored.note] if scored.note else []
            for remark in remarks:
                texts.setdefault(remark, []).append(scored.run.id)
    lines = [f"- {_cell(text)} ({_ids(ids)})" for text, ids in texts.items()]
    return ["", *lines] if lines else []


def _ids(ids: Sequence[str]) -> str:
    return f"`{ids[0]}`" if len(ids) == 1 else f"{len(ids)} runs, first `{ids[0]}`"


def _table(head: Row, rows: Iterable[Row]) -> str:
    right = "---:"
    rule = ["---"] + [right if "error" in name or name.endswith((" s", "s")) else "---" for name in head[1:]]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in (head, rule, *rows))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Rewrites the pages of the checkout that this module lies in."""
    write_pages(Path(__file__).resolve().parents[2], validate())


if __name__ == "__main__":
    main()
