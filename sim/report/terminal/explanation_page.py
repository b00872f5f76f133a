"""What ``sim explain`` prints: the gap, then what could be behind it, most plausible first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sim.report.quantities import duration, percent, signed_percent, significant, size, time_unit

SHOWN = 8  # candidates
ADVISED = 3  # of them with their test and command
NEGLIGIBLE = 0.001
_VERDICTS = {
    "inside the range": "inside the 90 % range: nothing to explain. What follows may still add up to the difference.",
    "as the healthy run": "as fast as the healthy run: nothing to explain.",
    "slower": "slower than nine of ten such runs",
    "faster": "faster than nine of ten such runs: look at how it was counted, and at what was computed",
    "no range": "no published run says how far off such a prediction may be",
}


def explanation_page(found: Mapping[str, Any], *, scenario: str, every: bool = False) -> RenderableType:
    """The page of ``Explanation.to_dict()``. ``scenario`` is the path in the commands shown."""
    parts: list[RenderableType] = [Text(found["scenario_name"], style="bold"), _figures(found)]
    parts += [Text(_verdict(found), style="bold"), *_log(found["log"]), Text()]
    shown = found["candidates"] if every else _shown(found["candidates"])
    parts += [Text("What could be behind it", style="bold"), _table(shown, found), Text()]
    parts += [Text("How to find out", style="bold"), *_advice(shown[:ADVISED], scenario)]
    parts += [Text(f"warning: {warning}", style="yellow") for warning in found["warnings"]]
    parts += [Text(), Text(f"scenario {found['scenario_hash']} · trainsim {found['version']}", style="dim")]
    return Group(*parts)


def _shown(candidates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [c for c in candidates if c["certain"] or c["plausibility"] >= NEGLIGIBLE][:SHOWN]


def _figures(found: Mapping[str, Any]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    table.add_row("predicted", duration(found["predicted_s"]), _range(found))
    if found["healthy_s"] is not None:
        table.add_row("healthy", duration(found["healthy_s"]), "as given")
    given = found["measured"] if "/" in found["measured"] or found["log"] is not None else ""
    table.add_row("measured", duration(found["measured_s"]), given)  # a plain time needs no second telling
    sign = "+" if found["difference_s"] >= 0 else "−"
    table.add_row(
        "difference", f"{sign}{duration(abs(found['difference_s']))}", signed_percent(found["difference"])
    )
    return Padding(table, (0, 0, 0, 2))


def _range(found: Mapping[str, Any]) -> str:
    spread = found["range_90"]
    if spread is None:
        return "no range"
    scale, unit = time_unit(found["predicted_s"])
    low, high = (significant(seconds / scale) for seconds in spread["step_time_s"])
    return f"90 %: {low}–{high} {unit} ({spread['kind']})"


def _verdict(found: Mapping[str, Any]) -> str:
    words = _VERDICTS[found["verdict"]]
    if found["healthy_s"] is not None and found["verdict"] in ("slower", "faster"):
        return f"{found['verdict']} than the healthy run"
    return words


def _log(log: Mapping[str, Any] | None) -> list[RenderableType]:
    if log is None:
        return []
    pace = log["pace"]
    words = [f"{log['format']} log: {pace['kept']} of {pace['lines']} lines after warm-up"]
    words.append(f"5 to 95 % of them at {pace['p5']:.3f} to {pace['p95']:.3f} of the median")
    if pace["stalls"]:
        words.append(
            f"{pace['stalls']} stalls cost {percent(pace['stalled_share'])} of the time, outside the median"
        )
    if pace["drift"] is not None:
        words.append(f"drift {signed_percent(pace['drift'])}")
    words += [f"{memory['kind']} memory {size(memory['peak_bytes'])}" for memory in log["memory"]]
    return [Text(" · ".join(words), style="dim")]


def _table(candidates: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("plausible", justify="right")
    table.add_column("adds", justify="right")
    table.add_column("explains", justify="left")
    for candidate in candidates:
        share = "certain" if candidate["certain"] else percent(candidate["plausibility"], 0)
        table.add_row(
            Text(candidate["title"]),
            share,
            _effect(candidate["effect_s"]),
            "yes" if candidate["explains"] else "in part",
        )
    table.add_row(Text("something else", style="dim"), percent(found["something_else"], 0), "", "")
    return Padding(table, (0, 0, 0, 2))


def _effect(effect_s: Sequence[float]) -> str:
    """What a mechanism adds, mild to severe, in one unit."""
    mild, severe = effect_s
    scale, unit = time_unit(max(abs(mild), abs(severe)))
    if significant(mild / scale, 3) == significant(severe / scale, 3):
        return f"{significant(mild / scale, 3)} {unit}"
    return f"{significant(mild / scale, 3)} to {significant(severe / scale, 3)} {unit}"


def _advice(candidates: Sequence[Mapping[str, Any]], scenario: str) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for candidate in candidates:
        lines.append(Padding(Text(candidate["title"]), (0, 0, 0, 2)))
        lines.append(Padding(Text(candidate["test"], style="dim"), (0, 0, 0, 4)))
        if candidate["changes"]:
            asked = " ".join(f"--set {shlex.quote(change)}" for change in candidate["changes"][-1])
            lines.append(Padding(Text(f"sim run {scenario} {asked}", style="dim"), (0, 0, 0, 4)))
    return lines
