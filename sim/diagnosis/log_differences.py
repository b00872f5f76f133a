"""Where a log is of another run than the scenario: settings by the framework's names against the scenario's fields."""

from __future__ import annotations

from dataclasses import dataclass

from sim.diagnosis.errors import ExplainError
from sim.interop import TrainingLog
from sim.scenario import Scenario

_FIELDS = {
    "training.global_batch": ("global_batch_size",),
    "training.micro_batch": ("micro_batch_size", "local_batch_size"),
    "training.sequence_length": ("seq_length", "sequence_length"),
    "parallelism.tp": ("tensor_model_parallel_size", "tp"),
    "parallelism.pp": ("pipeline_model_parallel_size", "pp"),
    "parallelism.cp": ("context_parallel_size", "cp"),
    "parallelism.ep": ("expert_model_parallel_size", "ep"),
}


@dataclass(frozen=True)
class Differences:
    """``changes`` turn the scenario into the run of the log; ``words`` say them."""

    changes: tuple[str, ...]
    words: tuple[str, ...]


def differences(scenario: Scenario, log: TrainingLog) -> Differences:
    """What the log's own settings contradict. Raises ``ExplainError`` for another number of GPUs: no change mends that."""
    if log.gpus is not None and log.gpus != scenario.gpus:
        raise ExplainError(
            f"{log.path}: the log is of {log.gpus:,} GPUs, the scenario has {scenario.gpus:,}: "
            "set cluster.nodes (or cluster.gpus) to those of the run"
        )
    found = {}
    for field, names in _FIELDS.items():
        said = next((log.settings[name] for name in names if name in log.settings), "")
        if field == "training.global_batch" and log.global_batch is not None:
            said = str(log.global_batch)
        if said.isdecimal() and int(said) > 0 and int(said) != _value(scenario, field):
            found[field] = said
    recompute = log.settings.get("recompute_granularity", "")
    if recompute == "full" and scenario.training.recompute.kind != "full":
        found["training.recompute"] = "full"
    words = tuple(
        f"{field} is {said} in the log, {_value(scenario, field)} in the scenario"
        for field, said in found.items()
    )
    return Differences(tuple(f"{field}={said}" for field, said in found.items()), words)


def _value(scenario: Scenario, field: str) -> object:
    section, _, name = field.partition(".")
    value = getattr(getattr(scenario, section), name)
    return value.kind if name == "recompute" else value
