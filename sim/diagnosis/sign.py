"""What is seen beside the step time: from a log, or told with ``--note``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from sim.diagnosis.errors import ExplainError
from sim.interop import TrainingLog

SIGNS: Mapping[str, tuple[str, ...]] = {
    "one-node": ("normal", "slow"),  # the same job on one node
    "busbw": ("normal", "low"),  # bus bandwidth of rccl-tests or nccl-tests
    "gemm": ("normal", "low"),  # rate of single matrix products
    "spread": ("steady", "wide"),  # of step times
    "drift": ("none", "rising"),  # of step times
    "stalls": ("none", "many"),
    "host": ("idle", "busy"),
    "memory": ("less", "more"),  # than predicted
    "batch": (
        "as-said",
        "other",
    ),  # batch and micro-batch of the run against the scenario's, where somebody looked
    "micro-batch": ("small", "large"),
    "micro-batches": ("few", "many"),
}
STEADY, WIDE = 0.03, 0.15  # 5 % to 95 % of step times over their median: assumed
RISING = 0.05  # last third of the run over the first
MANY_STALLS = 0.02  # of all steps


def from_log(log: TrainingLog) -> dict[str, str]:
    """What the pace of ``log`` shows; nothing where it has too few lines to tell."""
    pace, found = log.pace, {}
    if pace.kept >= 10:
        if pace.spread < STEADY:
            found["spread"] = "steady"
        elif pace.spread > WIDE:
            found["spread"] = "wide"
        found["stalls"] = "many" if pace.stalls > MANY_STALLS * pace.kept else "none"
    if pace.drift is not None:
        found["drift"] = "rising" if pace.drift > RISING else "none"
    return found


def from_notes(notes: Iterable[str]) -> dict[str, str]:
    """``one-node=normal`` and the like. Raises ``ExplainError`` for a word that is not known."""
    found: dict[str, str] = {}
    for note in notes:
        name, equals, value = (part.strip() for part in note.partition("="))
        if name not in SIGNS:
            near = difflib.get_close_matches(name, SIGNS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ExplainError(f"--note {note}: unknown sign{hint}; known: {', '.join(SIGNS)}")
        if not equals or value not in SIGNS[name]:
            raise ExplainError(f"--note {note}: write {name}={' or '.join(SIGNS[name])}")
        found[name] = value
    return found
