"""Ways in which a figure is counted differently: by which factor the run then seems slower or faster than it is.

A reading applies to some kinds of figures only: nobody miscounts seconds.
"""

from __future__ import annotations

import math

from sim.diagnosis.measurement import Measurement
from sim.families import family_of
from sim.scenario import Scenario
from sim.step import Step

READINGS = ("fallback-peak", "sparse-peak", "flops-convention", "per-package")
FALLBACK_PEAK_FLOPS = (
    312e12  # torchtitan and nanoGPT take an A100's (16 bits, dense) for a GPU they do not know
)
SPARSE = 2.0  # structured sparsity doubles the printed peak
GCDS_OF_A_PACKAGE = {"mi250x-gcd": 2, "mi250-gcd": 2}


def factors(
    reading: str, step: Step, measured: Measurement, log_peak_flops: float | None
) -> tuple[float, ...]:
    """How many times longer the step seems under ``reading``; empty where it cannot apply to such a figure."""
    if reading == "per-package":
        packages = GCDS_OF_A_PACKAGE.get(step.cluster.gpu.name.split(",")[0])
        per_gpu = measured.kind in ("tokens/s/GPU", "TFLOP/s", "MFU")
        return (float(packages), 1.0 / packages) if packages and per_gpu else ()
    if reading == "flops-convention":
        return _conventions(step) if measured.kind in ("TFLOP/s", "MFU") else ()
    if measured.kind != "MFU":
        return ()
    peak = step.result.mfu_peak_flops
    if reading == "sparse-peak":
        return (SPARSE,)
    used = log_peak_flops or FALLBACK_PEAK_FLOPS
    return () if math.isclose(used, peak, rel_tol=0.02) else (used / peak,)


def _conventions(step: Step) -> tuple[float, ...]:
    """The other convention for attention, and hardware FLOPs with recomputation counted in."""
    scenario = step.scenario
    family = family_of(scenario, step.cluster)
    ours = family.model_flops(scenario.metrics.mfu_convention)
    found = [ours / family.model_flops(other) for other in ("palm", "megatron")]
    if _recomputes_all(scenario):
        found.append(3.0 / 4.0)
    return tuple(factor for factor in found if not math.isclose(factor, 1.0, rel_tol=1e-6))


def _recomputes_all(scenario: Scenario) -> bool:
    recompute = scenario.training.recompute
    return recompute.kind == "full" and recompute.layers is None
