"""What limits a step, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from hwmodels.cluster import Cluster
from sim.scenario import Scenario

_LIMITS = {
    "gemm": "{format} matrix products at {cap} W",
    "attention": "attention kernels",
    "streaming": "HBM bandwidth of element-wise kernels",
    "embedding": "rows of the embedding tables",
    "launch": "kernel launches",
    "recompute": "recomputation of activations",
    "tensor_parallel": "tensor-parallel exchange",
    "context_parallel": "exchange of keys and values along the sequence",
    "expert_parallel": "exchange of tokens between experts",
    "embedding_exchange": "exchange of embedding vectors",
    "data_parallel": "gradient and parameter exchange",
    "pipeline": "pipeline sends",
    "bubble": "the pipeline bubble",
    "interference": "communication that slows the compute beside it",
    "optimizer": "the optimizer step",
    "host": "time outside the kernels",
    "data": "the input pipeline",
}
_AVOIDABLE = (
    "recompute",
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "embedding_exchange",
    "data_parallel",
    "pipeline",
    "bubble",
    "interference",
    "host",
    "data",
)


def bottleneck(breakdown_s: Mapping[str, float], cluster: Cluster, scenario: Scenario) -> str:
    """The largest cause, and the largest of those that a different plan or machine could avoid."""
    step = sum(breakdown_s.values())
    ranked = sorted(breakdown_s, key=lambda cause: -breakdown_s[cause])
    cap = scenario.cluster.power_cap_W or cluster.gpu.power_cap_W
    first = _LIMITS[ranked[0]].format(format=scenario.training.precision.upper(), cap=f"{cap:.0f}")
    sentence = (
        f"{cluster.gpu.title} is limited by {first} for {breakdown_s[ranked[0]] / step:.0%} of the step"
    )
    lost = [c for c in ranked[1:] if c in _AVOIDABLE and breakdown_s[c] / step >= 0.005]
    if lost:
        words = _LIMITS[lost[0]]
        sentence += f"; the largest avoidable loss is {words} ({breakdown_s[lost[0]] / step:.1%})"
    return sentence + "."
