"""trainsim: how long a training step takes on a machine, and why.

The public API. Names are imported on first use, so that ``import sim`` costs nothing::

    import sim

    result = sim.simulate(sim.load("scenarios/llama3.1-8b_8xmi325x.yaml", overrides=("training.micro_batch=4",)))
    result.step_time_s, result.breakdown_s["gemm"], result.worst_memory.verdict
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Their types are in __init__.pyi.
_HOMES = {
    "ImportedScenario": "sim.interop.configs",
    "Scenario": "sim.scenario",
    "ScenarioError": "sim.scenario",
    "StepResult": "sim.results",
    "calibrate_stack": "sim.calibrate",
    "catalog_entries": "sim.catalog",
    "catalog_entry": "sim.catalog",
    "compare_collective": "sim.diagnosis",
    "explain": "sim.diagnosis",
    "json_schema": "sim.scenario",
    "export_megatron": "sim.interop.configs",
    "import_scenario": "sim.interop.configs",
    "load": "sim.scenario",
    "loads": "sim.scenario",
    "measure_machine": "sim.measure.campaign",
    "measured_run": "sim.ledger",
    "predict_collective": "sim.collective",
    "read_log": "sim.interop",
    "read_training_log": "sim.interop",
    "simulate": "sim.step",
    "validate": "sim.ledger",
    "validate_micro": "sim.ledger",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sim' has no attribute {name!r}; public: {', '.join(sorted(_HOMES))}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
