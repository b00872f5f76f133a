"""The same model on more GPUs: measured and predicted ratios of step time per unit of work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.data_paths import measured_dir
from sim.ledger import load_directory
from sim.ledger.report import LedgerReport, score_files

FSDP = tuple(
    f"llm-foundry-{size}-{gpus}xh100-seq2048" for size in ("30b", "13b", "7b", "3b") for gpus in (128, 512)
)
FAMILIES = ("mlperf-5.0-405b", "mlperf-5.0-lora", "mlperf-5.1-lora", *FSDP)


@pytest.fixture(scope="module")
def errors() -> dict[str, float]:
    """Relative error by run of the families below only: quicker than the whole ledger."""
    files = load_directory(measured_dir())
    kept = [
        replace(file, runs=tuple(run for run in file.runs if run.id.startswith(FAMILIES))) for file in files
    ]
    report: LedgerReport = score_files([file for file in kept if file.runs])
    return {run.run.id: run.error for run in report.runs if run.error is not None}


@pytest.mark.parametrize(
    ("small", "large", "within"),
    [
        ("mlperf-5.0-lora-8xmi300x-mangoboost", "mlperf-5.0-lora-16xmi300x-mangoboost", 0.04),
        ("mlperf-5.1-lora-8xmi300x-mangoboost", "mlperf-5.1-lora-16xmi300x-mangoboost", 0.04),
        ("mlperf-5.0-405b-512xh100-nvidia", "mlperf-5.0-405b-2560xh100-nvidia", 0.04),
        ("mlperf-5.0-405b-512xgb200-coreweave", "mlperf-5.0-405b-1024xgb200-coreweave", 0.04),
        ("mlperf-5.0-405b-512xgb200-coreweave", "mlperf-5.0-405b-2496xgb200-coreweave", 0.04),
        ("mlperf-5.0-405b-512xh100-nvidia", "mlperf-5.0-405b-8192xh100-nvidia", 0.04),
        # The 70B and 1B models of this table miss by 4.0 and 5.0 % (docs/accuracy.md).
        *((small, large, 0.04) for small, large in zip(FSDP[::2], FSDP[1::2], strict=True)),
    ],
)
def test_scaling_ratios_are_those_measured(
    errors: dict[str, float], small: str, large: str, within: float
) -> None:
    """Error of (predicted large / predicted small) against the same ratio measured."""
    assert (1.0 + errors[large]) / (1.0 + errors[small]) == pytest.approx(1.0, abs=within)
