"""A profile from logs: figures that were put in come out, contradictions are refused, the file is a stack."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.logs import DATA, devices, rccl_text
from fakes.scenarios import SMALL

import sim
from hwmodels import catalog
from hwmodels.kernels import KernelModel
from hwmodels.stack import StackProfile
from sim.calibrate import Calibration, CalibrationError, calibrate_stack
from sim.calibrate.fit import Timing, median_error, solve
from sim.collective import collective_machine

NODE = "mi300x-8x400g"
BASE = catalog.stack("primus-2026-mi300x")
SIZES = [2**i for i in range(20, 35)]
SHAPES = [(4096 * i, 8192, 8192) for i in (1, 2, 3)]


def figure(found: Calibration, key: str) -> float:
    return next(f.value for f in found.figures if f.key == key)


def rccl_log(path: Path, stack: StackProfile, nodes: int = 1, head: tuple[str, ...] = ()) -> Path:
    """A log as the model predicts it under ``stack``."""
    machine = replace(collective_machine(NODE, nodes, None, None), stack=stack)
    rows = [(size, machine.seconds("all_reduce", size)) for size in SIZES]
    path.write_text(rccl_text("all_reduce", machine.ranks, rows, head))
    return path


def gemm_log(path: Path, stack: StackProfile, a_type: str = "bf16_r", dtype: str = "bf16") -> Path:
    model = KernelModel(catalog.gpu("mi300x"), stack)
    lines = ["transA,transB,batch_count,m,n,k,a_type,hipblaslt-Gflops,us"]
    for m, n, k in SHAPES:
        seconds = model.gemm_s(m, n, k, dtype)
        lines.append(f"T,N,1,{m},{n},{k},{a_type},{2e-9 * m * n * k / seconds:.3f},{seconds * 1e6:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("efficiency", [0.8, 0.95, 1.05])
def test_the_scale_up_figure_of_a_machine_comes_back(tmp_path: Path, efficiency: float) -> None:
    log = rccl_log(tmp_path / "rccl.txt", replace(BASE, scale_up_efficiency=efficiency))
    found = calibrate_stack("mine", [log], node=NODE)
    assert figure(found, "scale_up_efficiency") == pytest.approx(efficiency, rel=2e-3)
    assert found.accuracy[0].after < 2e-3 < found.accuracy[0].before


@pytest.mark.parametrize("efficiency", [0.5, 0.7])
def test_the_scale_out_figure_comes_back(tmp_path: Path, efficiency: float) -> None:
    log = rccl_log(tmp_path / "rccl.txt", replace(BASE, scale_out_efficiency=efficiency), nodes=2)
    assert figure(calibrate_stack("mine", [log], node=NODE), "scale_out_efficiency") == pytest.approx(
        efficiency, rel=5e-3
    )


def test_gemm_figures_come_back_by_format(tmp_path: Path) -> None:
    made = replace(BASE, gemm_efficiency={**BASE.gemm_efficiency, "bf16": 0.7, "fp8": 0.6})
    logs = [gemm_log(tmp_path / "a.csv", made), gemm_log(tmp_path / "b.csv", made, "f8_fnuz_r", "fp8")]
    found = calibrate_stack("mine", logs, base=BASE.name)
    assert figure(found, "gemm_efficiency.bf16") == pytest.approx(0.7, rel=2e-3)
    assert figure(found, "gemm_efficiency.fp8") == pytest.approx(0.6, rel=2e-3)
    assert all(row.after < 2e-3 < row.before for row in found.accuracy)


def test_streams_and_copies(tmp_path: Path) -> None:
    found = calibrate_stack(
        "mine", [DATA / "babelstream_mi300x.txt", DATA / "transferbench_a2a.txt"], node=NODE
    )
    middle = (4067069e6 + 3920853e6) / 2  # the median of Copy, Mul, Add, Triad
    assert figure(found, "stream_efficiency") == pytest.approx(
        middle / catalog.gpu("mi300x").hbm_bandwidth_Bps
    )
    assert figure(found, "scale_up_efficiency") == pytest.approx(
        46.55e9 / catalog.node(NODE).scale_up.usable_bandwidth_Bps
    )


def test_one_outlier_does_not_move_a_figure(tmp_path: Path) -> None:
    log = rccl_log(tmp_path / "rccl.txt", replace(BASE, scale_up_efficiency=0.9))
    clean = figure(calibrate_stack("mine", [log], node=NODE), "scale_up_efficiency")
    lines = log.read_text().splitlines()
    row = lines[-3].split()
    row[5], row[6], row[7] = (
        f"{float(row[5]) * 2:.6f}",
        f"{float(row[6]) / 2:.9f}",
        f"{float(row[7]) / 2:.9f}",
    )
    log.write_text("\n".join([*lines[:-3], " ".join(row), *lines[-2:], ""]))
    assert figure(calibrate_stack("mine", [log], node=NODE), "scale_up_efficiency") == pytest.approx(
        clean, rel=0.02
    )


def ledger(path: Path, step_time_s: float) -> Path:
    scenario = "\n".join(f"      {line}" for line in SMALL.splitlines())
    path.write_text(
        f"source: {{title: mine}}\nruns:\n  - id: run\n    split: fit\n    scenario:\n{scenario}\n"
        f"    measured: {{step_time_s: {step_time_s!r}}}\n"
    )
    return path


def test_a_training_run_gives_the_gemm_figure_that_no_log_gives(tmp_path: Path) -> None:
    stack = tmp_path / "made.yaml"
    stack.write_text(
        "name: made\ntitle: made\ndate: 2026-01-01\ngpus: [mi300x]\ninherits: primus-2026-mi300x\ntuned: true\nsources: {x: {title: x}}\n"
        'gemm_efficiency: {bf16: {value: "0.6", source: x, confidence: derived, note: made}}\n'
    )
    measured = sim.simulate(sim.loads(SMALL, overrides=(f"cluster.stack={stack}",))).step_time_s
    found = calibrate_stack("mine", [ledger(tmp_path / "runs.yaml", measured)])
    assert found.base == "primus-2026-mi300x"  # the stack that the run names
    assert figure(found, "gemm_efficiency.bf16") == pytest.approx(0.6, rel=0.01)
    assert found.accuracy[0].after < 0.005


def test_runs_only_check_what_gemm_logs_give(tmp_path: Path) -> None:
    logs = [ledger(tmp_path / "runs.yaml", 1.0), gemm_log(tmp_path / "a.csv", BASE)]
    found = calibrate_stack("mine", logs, node=NODE)
    assert [f.key for f in found.figures] == ["gemm_efficiency.bf16"]
    assert any("1 training runs only check it" in note for note in found.notes)
    assert [row.what for row in found.accuracy] == ["GEMM bf16", "training run run"]


def test_the_file_is_a_stack_with_sources_that_a_scenario_can_name(tmp_path: Path) -> None:
    logs = [
        rccl_log(tmp_path / "my rccl: log.txt", replace(BASE, scale_up_efficiency=0.9)),
        DATA / "babelstream_mi300x.txt",
    ]
    found = calibrate_stack("mine-2026", logs, node=NODE, date="2026-11-30")
    path = tmp_path / "stack.yaml"
    path.write_text(found.yaml)
    loaded = catalog.stack_from_file(path)
    assert replace(loaded, figures={}) == replace(found.profile, figures={})
    assert (loaded.name, loaded.date, loaded.gpus, loaded.inherits) == (
        "mine-2026",
        "2026-11-30",
        ("mi300x",),
        BASE.name,
    )
    cited = loaded.figures["scale_up_efficiency"]
    assert (cited.source, cited.confidence) == ("rccl-tests log: my rccl: log.txt", "derived")
    assert f"{BASE.scale_up_efficiency:g} in {BASE.name}" in cited.note
    assert loaded.figures["kernel_gap"] == BASE.figures["kernel_gap"]
    assert sim.loads(SMALL, overrides=(f"cluster.stack={path}",)).cluster.stack == str(path)


def test_a_profile_may_build_on_a_calibrated_one(tmp_path: Path) -> None:
    first = tmp_path / "first.yaml"
    first.write_text(calibrate_stack("first", [DATA / "babelstream_mi300x.txt"], node=NODE).yaml)
    second = tmp_path / "elsewhere" / "second.yaml"
    second.parent.mkdir()
    found = calibrate_stack("second", [DATA / "transferbench_a2a.txt"], base=str(first), node=NODE)
    second.write_text(found.yaml)
    assert catalog.stack_from_file(second).stream_efficiency == pytest.approx(0.7536)


def refusal(*logs: Path, **options: str) -> tuple[str, ...]:
    with pytest.raises(CalibrationError) as error:
        calibrate_stack("mine", logs, **options)  # type: ignore[arg-type]
    return error.value.errors


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace(" 0\n", " 3\n", 1), "a row with wrong results (#wrong): rerun the test"),
        (lambda text: "# mpirun -np 16 all_reduce_perf\n" + text, "the launch asks for 16 ranks, busbw/algbw says 8"),
        (lambda text: "\n".join([*devices(12), text]), "lists 12 devices, busbw/algbw says 8 ranks"),
        (lambda text: _half_rate(text, 6), "is not size over time"),
        (lambda text: _half_rate(text, 7), "busbw/algbw is 0.875: all_reduce on 8 ranks has 1.75"),
        (lambda text: "\n".join([*devices(8, "AMD Instinct MI325X"), text]), "measured on 'AMD Instinct MI325X', the profile is for mi300x"),
    ],
)  # fmt: skip
def test_a_log_that_contradicts_itself_is_refused(
    tmp_path: Path, change: Callable[[str], str], said: str
) -> None:
    log = rccl_log(tmp_path / "rccl.txt", BASE)
    log.write_text(change(log.read_text()))
    messages = refusal(log, node=NODE)
    assert any(said in message for message in messages), messages
    assert all(message.startswith(f"{log}:") for message in messages)


def _half_rate(text: str, column: int) -> str:
    """One row with half of what it had in ``column``."""
    lines = text.splitlines()
    fields = lines[-3].split()
    fields[column] = f"{float(fields[column]) / 2:.9f}"
    return "\n".join([*lines[:-3], " ".join(fields), *lines[-2:], ""])


def test_all_faults_of_all_logs_come_at_once(tmp_path: Path) -> None:
    bad = rccl_log(tmp_path / "rccl.txt", BASE)
    bad.write_text(bad.read_text().replace(" 0\n", " 3\n", 2))
    messages = refusal(
        bad, tmp_path / "no.txt", DATA / "rccl_mi300x_16_ranks.txt", DATA / "amd_smi.txt", node=NODE
    )
    assert len(messages) == 5


def test_logs_that_do_not_say_what_they_are() -> None:
    assert "which collective" in refusal(DATA / "rccl_algo_proto.csv", node=NODE)[0]
    assert "how many ranks" in refusal(DATA / "rccl_old_error_column.txt", node="mi250x-8gcd-4x200g")[0]
    assert "no log names its GPU" in refusal(DATA / "babelstream_mi300x.txt")[0]
    assert "one of the GPUs mi300x, mi325x, mi355x" in refusal(DATA / "mamf_best_table.csv")[0]


def test_what_cannot_be_fitted_says_why(tmp_path: Path) -> None:
    head, reason = refusal(DATA / "hipblaslt_rocm7.csv", base=BASE.name)
    assert head == "nothing could be fitted:"
    assert "small or bound by HBM" in reason
    fast = (
        DATA.joinpath("babelstream_mi300x.txt")
        .read_text()
        .replace("4177285", "94177285")
        .replace("4067069", "94067069")
        .replace("3920853", "93920853")
    )
    (tmp_path / "eight.txt").write_text(fast)
    assert any("the sum of several GPUs?" in line for line in refusal(tmp_path / "eight.txt", node=NODE))


def test_names_and_dates() -> None:
    log = DATA / "babelstream_mi300x.txt"
    for name in ("Mine", "", "a b", "../x", "primus-2026-mi300x"):
        with pytest.raises(CalibrationError, match="name"):
            calibrate_stack(name, [log], node=NODE)
    with pytest.raises(CalibrationError, match="a day like 2026-11-30"):
        calibrate_stack("mine", [log], node=NODE, date="yesterday")
    with pytest.raises(CalibrationError, match="give at least one with --from"):
        calibrate_stack("mine", [], node=NODE)


def test_the_node_follows_from_the_devices_of_the_log() -> None:
    found = calibrate_stack("mine", [DATA / "rccl_mi300x_1_node.txt"])
    assert (found.gpu, found.base) == ("mi300x", catalog.newest_stack("mi300x").name)
    assert figure(found, "scale_up_efficiency") == pytest.approx(1.0, abs=0.1)


def test_solve_brings_the_median_to_zero() -> None:
    timings = [Timing(measured, lambda e: 1.0 / e) for measured in (1.0, 2.0, 50.0)]
    value = solve(timings)
    assert value == pytest.approx(0.5)
    assert value is not None
    assert median_error(timings, value) == pytest.approx(0.0, abs=1e-9)
    assert solve([Timing(1e-9, lambda e: 1.0 / e)]) is None
    assert Timing(1.0, lambda e: 1.0 / e).is_sensitive
    assert not Timing(1.0, lambda e: math.pi).is_sensitive


def test_the_command_writes_prints_and_refuses(tmp_path: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "sim.cli", "calibrate", *arguments]
        return subprocess.run(program, capture_output=True, text=True, check=False)

    stream, copies = str(DATA / "babelstream_mi300x.txt"), str(DATA / "transferbench_a2a.txt")
    output = tmp_path / "stack.yaml"
    done = command("mine-2026", "--node", NODE, "--from", stream, copies, "-o", str(output))
    assert done.returncode == 0, done.stderr
    assert "error before" in done.stdout
    assert catalog.stack_from_file(output).name == "mine-2026"
    printed = command("mine-2026", "--node", NODE, "--from", stream, "--from", copies)
    assert printed.stdout.startswith("name: mine-2026\n")
    assert "error before" in printed.stderr
    content = json.loads(command("mine-2026", "--node", NODE, "--from", stream, "--json").stdout)
    assert [f["figure"] for f in content["figures"]] == ["stream_efficiency"]
    refused = command("mine-2026", "--node", NODE, "--from", str(DATA / "rccl_mi300x_16_ranks.txt"))
    assert refused.returncode == 2
    assert "32 ranks, busbw/algbw says 16" in refused.stderr
    assert "Traceback" not in refused.stderr
