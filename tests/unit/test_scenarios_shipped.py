"""The scenarios that come with the project: each runs, fits, and says what it claims."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import sim
from sim.cli import app
from sim.data_paths import scenarios_dir

FILES = sorted(scenarios_dir().glob("*.yaml"))
PROMISED = (
    "llama3.1-8b_8xmi325x", "llama3.1-8b_8xmi355x_fp8", "llama3.1-70b_8xmi355x_fsdp", "gpt-175b_lumi_128gcd",
    "llama3.1-405b_16384xmi300x",
)  # fmt: skip


def says_it_does_not_fit(path: Path) -> bool:
    return "does not fit" in path.read_text(encoding="utf-8")


def test_there_are_enough_and_the_promised_ones() -> None:
    names = {path.stem for path in FILES}
    assert len(names) >= 8
    assert set(PROMISED) <= names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_scenario_is_predicted_and_fits_unless_it_says_otherwise(path: Path) -> None:
    scenario = sim.load(path)
    assert scenario.name != "unnamed scenario"
    result = sim.simulate(scenario)
    assert result.step_time_s > 0.0
    assert 0.0 < result.mfu < 1.0
    assert result.sources
    assert result.fits != says_it_does_not_fit(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_sim_run_shows_it_and_exits_accordingly(path: Path) -> None:
    shown = CliRunner().invoke(app, ["run", str(path)])
    assert shown.exit_code == (3 if says_it_does_not_fit(path) else 0), shown.output
    assert sim.load(path).name in " ".join(shown.output.split())
