"""Small scenarios that run in milliseconds: an invented four-layer model on catalog machines."""

from __future__ import annotations

from sim.scenario import Scenario, loads

SMALL = """\
schema: 1
name: small
model: {name: small, layers: 4, hidden: 1024, ffn: 2816, heads: 16, kv_heads: 8, vocab: 32000}
cluster: {node: mi300x-8x400g, nodes: 1, stack: primus-2026-mi300x}
training: {sequence_length: 2048, global_batch: 32, precision: bf16}
"""


def small(*changes: str) -> Scenario:
    """The small scenario with ``field=value`` changes."""
    return loads(SMALL, overrides=changes)


def changes(plan: str) -> tuple[str, ...]:
    """Changes written in one line, split at blanks: ``tp=4`` belongs to parallelism, ``training.x=y`` says where.

    A mapping has no blanks: ``training.lora={rank:16}``.
    """
    sections = ("cluster.", "training.", "model.", "metrics.")
    full = (c if c.startswith(sections) else f"parallelism.{c}" for c in plan.split())
    return tuple(c.replace(":", ": ") for c in full)
