"""Small questions about published recommenders."""

from __future__ import annotations

from sim.scenario import Scenario, loads

DLRM = """\
schema: 1
name: dlrm
model: dlrm-dcnv2
cluster: {node: h100-8x400g, nodes: 1, stack: hugectr-2024-h100}
training: {global_batch: 55296, precision: fp16, embeddings: {distinct: 0.4}}
parallelism: {tables: {room: 60 GB}}
"""


def dlrm(*changes: str) -> Scenario:
    """DLRM-DCNv2 on eight H100 with ``field=value`` changes."""
    return loads(DLRM, overrides=changes)
