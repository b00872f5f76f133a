"""The small configuration files under ``tests/data/configs``, and what has to be said beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import sim
from sim.interop.configs import ImportedScenario

CONFIGS = Path(__file__).resolve().parents[1] / "data" / "configs"
ROOT = CONFIGS / "primus"
NODE = "mi300x-8x400g"
BATCH = ("training.sequence_length=4096", "training.global_batch=512")

FILES: tuple[tuple[str, str], ...] = (
    ("primus", "experiments/llama_8b.yaml"),
    ("primus", "experiments/routed.yaml"),
    ("primus", "experiments/titan.yaml"),
    ("megatron", "gpt3_175b.sh"),
    ("megatron", "megatron_head.log"),
    ("torchtitan", "llama3_8b.toml"),
    ("torchtitan", "titan_head.log"),
    ("hf", "qwen3/config.json"),
    ("hf", "deepseek/config.json"),
    ("hf", "mixtral/config.json"),
)
"""Every kind of file, all of which import."""

NODES = {
    "experiments/llama_8b.yaml": 1,
    "experiments/routed.yaml": 2,
    "megatron_head.log": 8,
    "llama3_8b.toml": 2,
    "titan_head.log": 1,
}
"""Nodes on which their batches divide; 16 for the others."""


def imported(
    kind: str,
    path: str | Path,
    *overrides: str,
    nodes: int | None = 0,
    environment: dict[str, str] | None = None,
    ignore: Iterable[str] = (),
) -> ImportedScenario:
    """``nodes`` of 0 stands for as many as fit the file, None for none given."""
    return sim.import_scenario(
        kind,
        CONFIGS / path,
        node=NODE,
        nodes=NODES.get(str(path), 16) if nodes == 0 else nodes,
        overrides=(*(BATCH if kind == "hf" else ()), *overrides),
        environment=environment,
        root=ROOT if kind == "primus" else None,
        ignore=ignore,
    )
