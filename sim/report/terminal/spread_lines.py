"""What chance makes of a step: percentiles, the rank that decides, what healthy devices would gain."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from sim.report.quantities import duration, percent
from sim.results import StepSpread


def spread_lines(spread: StepSpread) -> Iterator[RenderableType]:
    """A few lines, indented as the rest of the page."""
    if spread.trials == 1:
        yield _line(f"this machine: {_longer(spread.mean_s, spread)}")
    else:
        p = {name: duration(seconds) for name, seconds in spread.percentiles_s.items()}
        yield _line(
            f"mean {_longer(spread.mean_s, spread)}, standard error {duration(spread.standard_error_s)}"
        )
        yield _line(
            f"5 % of {spread.trials:,} steps below {p['p05']}, half below {p['p50']}, 95 % below {p['p95']}, "
            f"99 % below {p['p99']}"
        )
    yield _line(spread.decider)
    for gain in spread.gains:
        error = f" ± {duration(gain.standard_error_s)}" if spread.trials > 1 else ""
        share = percent(gain.seconds / spread.mean_s)
        yield _line(f"{gain.what} saves {duration(gain.seconds)}{error} a step ({share})")


def _longer(seconds: float, spread: StepSpread) -> str:
    return (
        f"{duration(seconds)}, {percent(seconds / spread.nominal_s - 1.0)} longer than with all devices alike"
    )


def _line(words: str) -> RenderableType:
    return Padding(Text(words), (0, 0, 0, 2))
