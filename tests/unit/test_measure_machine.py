"""What surrounds a measurement: what was asked, telemetry, provenance, ranks. Nothing here needs torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.measure import campaign, errors, provenance, telemetry
from sim.measure.errors import MeasurementError, TorchMissing, one_line
from sim.measure.ranks import launched
from sim.measure.telemetry import Reading, amd_reading, nvidia_reading

MACHINE = {"device": "AMD Instinct MI300X", "rocm": "7.0", "cuda": None}


def test_without_torch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(TorchMissing, match=r"pip install 'trainsim\[measure\]'"):
        sim.measure_machine("all", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_says_so_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from sim import cli

    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["sim", "measure", "gemm", "-o", str(tmp_path)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("error: sim measure needs torch")


def test_unknown_words_teach() -> None:
    assert campaign.kinds_of("all") == campaign.KINDS
    assert campaign.kinds_of("gemm") == ("gemm",)
    with pytest.raises(MeasurementError, match="did you mean attention"):
        campaign.kinds_of("atention")
    with pytest.raises(MeasurementError, match=r"sim measure all my\.yaml -o DIR"):
        campaign.kinds_of("my.yaml")


@pytest.mark.parametrize("seconds", [0.0, -1.0, 3600.0, float("nan")])
def test_impossible_times_are_refused(seconds: float, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="--seconds"):
        sim.measure_machine("gemm", tmp_path, seconds=seconds)


def test_amd_readings_take_the_median_of_the_compute_dies() -> None:
    text = (
        "some notice of the tool\n"
        "gpu,socket_power,gfx_voltage,gfx_0_clk,gfx_1_clk,gfx_2_clk,gfx_0_min_clk,mem_0_clk\n"
        "0,749,N/A,1200,1300,N/A,132,900\n"
    )
    assert amd_reading(text) == Reading(1250.0, 749.0)
    assert amd_reading("gpu,socket_power\n0,N/A\n") == Reading(None, None)
    assert amd_reading("") == Reading(None, None)


def test_nvidia_readings() -> None:
    assert nvidia_reading("1755, 687.12\n") == Reading(1755.0, 687.12)
    assert nvidia_reading("[N/A], 70.5\n") == Reading(None, 70.5)
    assert nvidia_reading("") == Reading(None, None)


def test_a_tool_that_is_missing_fails_or_hangs_costs_a_figure_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert telemetry.output(("no-such-tool-anywhere",)) is None
    assert telemetry.output((sys.executable, "-c", "raise SystemExit(1)")) is None
    monkeypatch.setattr(telemetry, "TIMEOUT_S", 0.1)
    assert telemetry.output((sys.executable, "-c", "import time; time.sleep(20)")) is None
    assert telemetry.output((sys.executable, "-c", "print(3)")) in (None, "3\n")


def test_the_query_of_each_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def answer(command: tuple[str, ...]) -> str:
        asked.append(command)
        return "gpu,socket_power,gfx_0_clk\n0,700,1400\n" if "amd" in command[0] else "1400, 700\n"

    monkeypatch.setattr(telemetry, "output", answer)
    for tool in ("/opt/rocm/bin/amd-smi", "/usr/bin/nvidia-smi"):
        assert telemetry.ask(tool, "0000:05:00.0") == Reading(1400.0, 700.0)
    assert all("0000:05:00.0" in command for command in asked)


def test_provenance_gathers_measurements_of_one_machine(tmp_path: Path) -> None:
    provenance.record(tmp_path, MACHINE, {"gemm": {"files": ["gemm.csv"]}})
    provenance.refuse_another_machine(tmp_path, MACHINE)
    path = provenance.record(tmp_path, MACHINE, {"stream": {"files": ["babelstream.txt"]}})
    content = json.loads(path.read_text())
    assert set(content["measurements"]) == {"gemm", "stream"}
    assert content["machine"] == MACHINE
    assert content["measurements"]["gemm"]["date"].endswith("+00:00")
    assert content["measurements"]["gemm"]["trainsim"] == sim.__version__


def test_logs_of_two_machines_do_not_mix(tmp_path: Path) -> None:
    provenance.record(tmp_path, MACHINE, {"gemm": {}})
    with pytest.raises(MeasurementError, match=r"rocm was 7\.0, is 7\.1"):
        provenance.refuse_another_machine(tmp_path, {**MACHINE, "rocm": "7.1"})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"machine": {}'])
def test_a_file_of_somebody_else_is_left_alone(content: str, tmp_path: Path) -> None:
    (tmp_path / "provenance.json").write_text(content)
    with pytest.raises(MeasurementError, match="move it away"):
        provenance.refuse_another_machine(tmp_path, MACHINE)


def environment(**changes: Any) -> dict[str, str]:
    launcher = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"}
    return {**launcher, "MASTER_ADDR": "first", "MASTER_PORT": "29500", **changes}


def test_ranks_take_the_place_that_their_launcher_gives() -> None:
    assert launched({}) is None
    rank = launched(environment())
    assert rank is not None
    assert (rank.rank, rank.world, rank.local, rank.node, rank.leads) == (9, 16, 1, 1, False)


def test_half_a_launcher_is_refused() -> None:
    half = environment()
    del half["MASTER_ADDR"]
    with pytest.raises(MeasurementError, match="MASTER_ADDR is not: start the ranks with torchrun"):
        launched(half)


def test_settings_that_steer_the_library_are_kept_and_places_are_not() -> None:
    kept = campaign._library_settings(
        {
            "NCCL_ALGO": "Ring",
            "NCCL_MIN_NCHANNELS": "32",
            "NCCL_SOCKET_IFNAME": "eth7",
            "NCCL_TOPO_FILE": "/x",
            "HOME": "/y",
        }
    )
    assert kept == {"NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "32"}


def test_long_errors_become_the_line_that_matters() -> None:
    assert one_line(RuntimeError("out of memory\nsome advice")) == "out of memory"
    assert (
        one_line(RuntimeError("-- Process 1 --\nTraceback (most recent call last):\n  x\nValueError: no"))
        == "ValueError: no"
    )
    assert one_line(RuntimeError()) == "RuntimeError"
