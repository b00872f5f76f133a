"""Measured cases and residuals made by hand: every number is invented."""

from __future__ import annotations

from typing import Any

from sim.range import Case, Residual


def case(**changes: Any) -> Case:
    facts: dict[str, Any] = {
        "gpu": "mi325x",
        "stack": "example-stack",
        "tuned": True,
        "model": "llama-3.1-8b",
        "experts": False,
        "precision": "bf16",
        "gpus": 8,
        "tp": 1,
        "cp": 1,
        "pp": 1,
        "ep": 1,
        "schedule": "none",
        "data_sharding": "zero-1",
        "sequence_length": 4096,
    }
    return Case(**facts | changes)


def residual(value: float = 0.0, run: str = "", *, split: str = "check", **changes: Any) -> Residual:
    return Residual((run or f"run{value:+}",), split, case(**changes), value)
