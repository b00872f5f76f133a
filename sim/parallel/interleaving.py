"""Interleaved 1F1B: each stage holds several parts and takes them up in turn, a round of micro-batches each."""

from __future__ import annotations

from sim.parallel.passes import BACKWARD, FORWARD, Order, Pass


def round_size(stages: int, microbatches: int) -> int:
    """Micro-batches that a stage runs through one part before it takes up the next: ``stages`` or a few more.

    Fewer micro-batches than stages make one round. Raises ValueError when rounds cannot be equal.
    """
    rounds = max(1, microbatches // stages)
    if microbatches % rounds:
        raise ValueError(f"{microbatches} micro-batches do not divide into {rounds} equal rounds")
    return microbatches // rounds


def interleaved(stage: int, stages: int, chunks: int, microbatches: int) -> Order:
    """Warm-up of (chunks-1) rounds and two passes per later stage, then forward and backward in turn."""
    size = round_size(stages, microbatches)
    forwards = [_pass(FORWARD, k, stage, stages, chunks, size) for k in range(chunks * microbatches)]
    backwards = [_pass(BACKWARD, k, stage, stages, chunks, size) for k in range(chunks * microbatches)]
    warmup = min((chunks - 1) * size + 2 * (stages - 1 - stage), len(forwards))
    order = forwards[:warmup]
    for forward, backward in zip(forwards[warmup:], backwards, strict=False):
        order += [forward, backward]
    return tuple(order + backwards[len(forwards) - warmup :])


def _pass(kind: str, count: int, stage: int, stages: int, chunks: int, size: int) -> Pass:
    """The ``count``-th pass of its kind: a round of micro-batches per chunk, backwards from the last chunk."""
    block, place = divmod(count, size)
    rounds, chunk = divmod(block, chunks)
    if kind == BACKWARD:
        chunk = chunks - 1 - chunk
    return Pass(kind, chunk * stages + stage, rounds * size + place)
