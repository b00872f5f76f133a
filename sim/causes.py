"""What a second of a training step can be charged to: fixed order, one label and one colour each.

The colours are the same in every view (terminal, app, report, plots). The hue says the family: blues and
greens compute, warm colours communication, neutral ones waiting, purples the rest of the step.
``tests/unit/test_causes.py`` checks that they stay apart for the three common kinds of colour blindness.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One cause of time: ``key`` in results, ``label`` for people, ``colour`` as ``#rrggbb``."""

    key: str
    label: str
    description: str
    colour: str


CAUSES = (
    Cause("gemm", "matrix multiplies", "linear layers and the output projection", "#044FB1"),
    Cause("attention", "attention", "softmax(QKᵀ)V kernels, forward and backward", "#7DD0F7"),
    Cause(
        "streaming", "memory streaming", "norms, activations, casts, cross-entropy: bound by HBM", "#128572"
    ),
    Cause("embedding", "embedding tables", "rows looked up, reordered and updated", "#4DADEE"),
    Cause("launch", "kernel launches", "gaps between dependent kernels", "#B6DF9B"),
    Cause("recompute", "recomputation", "forward work done again in the backward pass", "#8180FD"),
    Cause(
        "tensor_parallel", "tensor-parallel comm.", "exchange inside a layer that nothing hides", "#8B4317"
    ),
    Cause(
        "context_parallel",
        "context-parallel comm.",
        "keys, values and heads of other parts of a sequence",
        "#FEA952",
    ),
    Cause("expert_parallel", "expert-parallel comm.", "tokens on their way to experts and back", "#6E3140"),
    Cause(
        "embedding_exchange",
        "embedding exchange",
        "ids, vectors of rows and their gradients between ranks",
        "#DCB8C1",
    ),
    Cause("data_parallel", "data-parallel comm.", "gradients and parameters that nothing hides", "#F37E47"),
    Cause("pipeline", "pipeline sends", "activations between stages that nothing hides", "#F0E335"),
    Cause("bubble", "pipeline bubble", "waiting for another stage", "#A7A4B0"),
    Cause("interference", "interference", "compute slowed by communication beside it", "#C25C03"),
    Cause("optimizer", "optimizer", "weight update and gradient accumulation", "#684579"),
    Cause("host", "host and framework", "time outside all kernels", "#A379B7"),
    Cause("data", "input pipeline", "waiting for samples from storage and host", "#8818F2"),
)

KEYS = tuple(cause.key for cause in CAUSES)
BY_KEY = {cause.key: cause for cause in CAUSES}
COMMUNICATION = (
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "embedding_exchange",
    "data_parallel",
    "pipeline",
)
