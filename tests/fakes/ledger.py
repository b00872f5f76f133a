"""Measured runs and their scores made by hand: every number is invented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sim.ledger.run import Measured, MeasuredRun, Source
from sim.ledger.score import ScoredRun
from sim.scenario.errors import Position
from sim.scenario.yaml_document import Block


def measured_run(name: str = "run", **changes: Any) -> MeasuredRun:
    run = MeasuredRun(
        id=name,
        split="check",
        document=Block({}, Position("ledger.yaml", 1, 1)),
        measured=Measured(step_time_s=2.0),
        source=Source(title="A table", url="https://example.org"),
        location="ledger.yaml:1",
    )
    return replace(run, **changes)


def scored_run(
    name: str = "run",
    *,
    predicted: float | None = 2.0,
    measured: float = 2.0,
    configuration: str = "",
    **changes: Any,
) -> ScoredRun:
    """One scored run; keywords that are fields of the run itself (split, tuned, note …) go there."""
    own = {key: changes.pop(key) for key in tuple(changes) if key in MeasuredRun.__dataclass_fields__}
    facts: dict[str, Any] = {
        "run": measured_run(name, **({"measured": Measured(step_time_s=measured)} | own)),
        "configuration": configuration or name,
        "gpu": "mi325x",
        "stack": "example-stack",
        "model": "llama-3.1-8b",
        "n_gpus": 8,
        "lora": False,
        "measured_step_s": measured,
        "predicted_step_s": predicted,
        "predicted_allocated_bytes": (),
        "tokens_per_step": 8192.0 * 16,
        "global_batch": 16,
    }
    return ScoredRun(**facts | changes)
