"""What stands behind a gap: effects are simulated, plausibilities add up, evidence moves them the right way."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sim
from sim.cli import app
from sim.diagnosis import Candidate, ExplainError, Explanation
from sim.diagnosis.measurement import Measurement
from sim.diagnosis.plausibility import ErrorModel, memory_factor, sign_factor

TEXT = """
name: two nodes
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 2}
training: {sequence_length: 4096, global_batch: 64, micro_batch: 1, precision: bf16}
parallelism: {data_sharding: zero-1}
"""


def usual() -> float:
    return sim.simulate(sim.loads(TEXT)).step_time_s


def ask(times: float, *overrides: str, **more: object) -> Explanation:
    """The scenario with a step that takes ``times`` as long as predicted."""
    scenario = sim.loads(TEXT, overrides)
    measured = times * sim.simulate(scenario).step_time_s
    return sim.explain(scenario, f"{measured!r} s", **more)  # type: ignore[arg-type]


def of(found: Explanation, key: str) -> Candidate:
    return next(candidate for candidate in found.candidates if candidate.key == key)


def place(found: Explanation, key: str) -> int:
    return [candidate.key for candidate in found.candidates].index(key)


def log_of(
    folder: Path,
    seconds: float,
    *,
    gpus: int = 16,
    batch: int = 64,
    memory: str = "",
    name: str = "train.log",
) -> Path:
    lines = [f"using world size: {gpus}, data-parallel size: {gpus}\n", memory]
    lines += [
        f" [2026-01-01 10:00:00] iteration {i:8}/     100 | consumed samples: {i * batch:12} | "
        f"elapsed time per iteration (ms): {1e3 * seconds:.3f} | global batch size: {batch:5} |\n"
        for i in range(1, 21)
    ]
    path = folder / name
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_a_healthy_run_needs_no_explanation() -> None:
    found = ask(1.0)
    assert found.verdict == "inside the range"
    assert found.nothing_to_explain
    assert found.difference_s == pytest.approx(0.0, abs=1e-12)


def test_plausibilities_add_up_to_one() -> None:
    for times in (0.6, 1.0, 1.7, 8.0):
        found = ask(times)
        shares = [candidate.plausibility for candidate in found.candidates]
        assert sum(shares) + found.something_else == pytest.approx(1.0)
        assert shares == sorted(shares, reverse=True)
        assert len({candidate.key for candidate in found.candidates}) == len(shares)


def test_an_effect_is_what_the_changed_scenario_simulates_to() -> None:
    found, base = ask(1.5), usual()
    for key in ("attention-kernel", "slow-gemm", "recompute-on", "low-clock", "fallback-transport"):
        candidate = of(found, key)
        again = [sim.simulate(sim.loads(TEXT, change)).step_time_s - base for change in candidate.changes]
        assert candidate.effect_s[0] == pytest.approx(min(again), rel=1e-9), key
        assert candidate.effect_s[1] == pytest.approx(max(again), rel=1e-9), key


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("training.recompute=full", "recompute-on"),
        ("cluster.degraded.scale_out=0.005", "fallback-transport"),
        ("cluster.degraded.gemm=0.15", "slow-gemm"),
    ],
)
def test_what_was_done_to_a_run_is_among_the_first(change: str, key: str) -> None:
    slow = sim.simulate(sim.loads(TEXT, [change])).step_time_s
    found = sim.explain(sim.loads(TEXT), f"{slow!r} s", healthy=f"{usual()!r} s")
    assert place(found, key) < 5
    assert of(found, key).explains


def test_products_in_a_wider_format_than_asked() -> None:
    slow, asked = usual(), sim.loads(TEXT, ["training.precision=fp8"])
    found = sim.explain(asked, f"{slow!r} s", healthy=f"{sim.simulate(asked).step_time_s!r} s")
    assert of(found, "wrong-precision").explains
    assert place(found, "wrong-precision") < 5


def test_one_switch_among_the_scenarios_own_is_recovered_first_with_evidence() -> None:
    slow = sim.simulate(sim.loads(TEXT, ["cluster.degraded.scale_out=0.005"])).step_time_s
    found = sim.explain(
        sim.loads(TEXT), f"{slow!r} s", healthy=f"{usual()!r} s", notes=["one-node=normal", "busbw=low"]
    )
    assert found.candidates[0].key == "fallback-transport"


def test_signs_move_what_shows_them_up_and_what_contradicts_them_down() -> None:
    plain, told = ask(1.6), ask(1.6, notes=["one-node=normal"])
    ratio = {
        key: of(told, key).plausibility / of(plain, key).plausibility
        for key in ("slow-network", "slow-link", "slow-gemm")
    }
    assert ratio["slow-network"] > ratio["slow-gemm"] > ratio["slow-link"]


def test_a_network_cannot_slow_one_node() -> None:
    keys = {candidate.key for candidate in ask(1.5, "cluster.nodes=1").candidates}
    assert not keys & {"slow-network", "fallback-transport", "few-nics", "ecmp-collisions"}
    assert "low-clock" in keys


def test_switches_that_are_as_the_scenario_says_are_no_candidates() -> None:
    keys = {candidate.key for candidate in ask(1.5, "training.recompute=full").candidates}
    assert "recompute-on" not in keys
    assert "recompute-off" in keys


def test_a_run_that_is_too_fast() -> None:
    scenario = sim.loads(TEXT)
    fast = sim.explain(scenario, "120 % MFU")
    assert fast.verdict == "faster"
    assert fast.candidates[0].key == "wrong-peak"
    assert any("cannot be" in warning for warning in fast.warnings)
    narrow = sim.simulate(sim.loads(TEXT, ["training.precision=fp8"])).step_time_s
    assert place(sim.explain(scenario, f"{narrow!r} s", healthy=f"{usual()!r} s"), "lower-precision") < 3


def test_nobody_miscounts_seconds() -> None:
    assert not {candidate.key for candidate in ask(2.0).candidates if candidate.area == "counting"}


def test_a_healthy_figure_is_what_the_gap_is_measured_against() -> None:
    base = usual()
    found = sim.explain(sim.loads(TEXT), f"{3.0 * base} s", healthy=f"{2.0 * base} s")
    assert found.difference_s == pytest.approx(base)
    assert found.verdict == "slower"
    assert (
        sim.explain(sim.loads(TEXT), f"{2.01 * base} s", healthy=f"{2.0 * base} s").verdict
        == "as the healthy run"
    )


def test_a_log_gives_its_median_and_its_signs(tmp_path: Path) -> None:
    found = sim.explain(sim.loads(TEXT), log=log_of(tmp_path, 1.5 * usual()))
    assert found.measured_s == pytest.approx(1.5 * usual(), rel=1e-3)
    assert found.signs == {"spread": "steady", "stalls": "none", "drift": "none"}


def test_a_log_of_another_batch_says_so_first(tmp_path: Path) -> None:
    other = sim.simulate(sim.loads(TEXT, ["training.global_batch=128"])).step_time_s
    found = sim.explain(sim.loads(TEXT), log=log_of(tmp_path, other, batch=128))
    first = found.candidates[0]
    assert (first.key, first.certain, first.changes) == (
        "run-differs",
        True,
        (("training.global_batch=128",),),
    )
    assert first.effect_s[0] == pytest.approx(other - usual())


def test_a_log_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExplainError, match=r"of 32 GPUs, the scenario has 16"):
        sim.explain(sim.loads(TEXT), log=log_of(tmp_path, 1.0, gpus=32))


def test_memory_tells_a_recomputing_run(tmp_path: Path) -> None:
    changed = sim.simulate(sim.loads(TEXT, ["training.recompute=full"]))
    seconds, held = changed.step_time_s, changed.worst_memory.allocated_bytes / 2**20
    words = f"[Rank 0] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: {held:.2f} | reserved: 1.0 | max reserved: {held:.2f}\n"
    bare = sim.explain(sim.loads(TEXT), log=log_of(tmp_path, seconds))
    told = sim.explain(sim.loads(TEXT), log=log_of(tmp_path, seconds, memory=words, name="told.log"))
    assert of(told, "recompute-on").plausibility > 1.5 * of(bare, "recompute-on").plausibility


@pytest.mark.parametrize(
    "figure", ["", "fast", "0 s", "-1 s", "12", "1e400 s", "5 % tokens/s", "MFU", "nan s"]
)
def test_figures_that_cannot_be_read(figure: str) -> None:
    with pytest.raises(ExplainError, match="--measured"):
        sim.explain(sim.loads(TEXT), figure)


@pytest.mark.parametrize("note", ["weather=bad", "one-node", "one-node=fast", "spred=wide"])
def test_notes_that_are_not_known(note: str) -> None:
    with pytest.raises(ExplainError, match="--note"):
        ask(1.5, notes=[note])


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1.43s", "seconds", 1.43),
        ("930 ms", "seconds", 0.93),
        ("9,600 tokens/s/GPU", "tokens/s/GPU", 9600.0),
        ("18.7 samples/s", "samples/s", 18.7),
        ("296.5 TFLOP/s", "TFLOP/s", 296.5),
        ("24.3 % MFU", "MFU", 0.243),
        ("0.243 MFU", "MFU", 0.243),
    ],
)
def test_figures_as_people_give_them(text: str, kind: str, value: float) -> None:
    found = Measurement.read(text)
    assert (found.kind, found.value) == (kind, pytest.approx(value))


def test_every_figure_of_a_result_means_its_own_step_time() -> None:
    result = sim.simulate(sim.loads(TEXT))
    for text in (
        f"{result.tokens_per_s_per_gpu} tokens/s/GPU",
        f"{result.tokens_per_s} tokens/s",
        f"{64 / result.step_time_s} samples/s",
        f"{result.tflops_per_gpu} TFLOP/s",
        f"{result.mfu} MFU",
    ):
        assert Measurement.read(text).step_time_s(result, 64) == pytest.approx(result.step_time_s), text


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (0.3, 0.3), (0.1, 1.5)])
@pytest.mark.parametrize("extra", [0.0, 0.25])
def test_densities_are_densities(low: float, high: float, extra: float) -> None:
    model = ErrorModel(0.02, 0.05, extra)
    step = 0.002
    total = sum(model.density(i * step, low, high) * step for i in range(-1500, 3000))
    assert total == pytest.approx(1.0, abs=0.02)


def test_a_wide_mechanism_explains_a_gap_less_well_than_one_that_predicts_it() -> None:
    model = ErrorModel(0.0, 0.03)
    assert (
        model.density(0.4, 0.4, 0.4)
        > model.density(0.4, 0.1, 1.0)
        > model.density(0.4, 0.1, 3.0)
        > model.density(0.4, 1.0, 1.1)
    )


def test_factors_of_evidence() -> None:
    assert (
        sign_factor({"gemm": "low"}, {"gemm": "low"}) > 1 > sign_factor({"gemm": "low"}, {"gemm": "normal"})
    )
    assert sign_factor({"gemm": "low"}, {"host": "busy"}) == 1
    assert memory_factor(50e9, usual=80e9, changed=50e9) > 1 > memory_factor(80e9, usual=80e9, changed=50e9)
    assert memory_factor(80e9, usual=80e9, changed=80e9) == pytest.approx(1.0)


def test_a_log_becomes_a_measured_run_that_the_ledger_scores(tmp_path: Path) -> None:
    log = sim.read_training_log(log_of(tmp_path, 2.0 * usual()))
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "mine.yaml").write_text(sim.measured_run(log, sim.loads(TEXT)), encoding="utf-8")
    (run,) = sim.validate(folder).to_dict()["runs"]
    assert run["id"] == "two-nodes-train"
    assert run["error"] == pytest.approx(-0.5, abs=1e-3)
    with pytest.raises(ValueError, match=r"of 64 sequences per step, the scenario has 128"):
        sim.measured_run(log, sim.loads(TEXT, ["training.global_batch=128"]))


def test_the_command(tmp_path: Path) -> None:
    path, run = tmp_path / "s.yaml", tmp_path / "run.yaml"
    path.write_text(TEXT, encoding="utf-8")
    log = log_of(tmp_path, 1.5 * usual())
    done = CliRunner().invoke(app, ["explain", str(path), "--log", str(log), "--write-run", str(run)])
    assert done.exit_code == 0, done.output
    assert "What could be behind it" in done.output
    assert run.is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--measured", "soon"),
        ("--measured", "1 s", "--log", "nowhere.log"),
        ("--log", "nowhere.log"),
        ("--measured", "1 s", "--note", "x=y"),
        ("--measured", "1 s", "--write-run", "run.yaml"),
    ],
)
def test_bad_questions_exit_with_2(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from sim.cli import main

    path = tmp_path / "s.yaml"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sim", "explain", str(path), *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2


def test_the_gap_of_nothing_is_nothing() -> None:
    found = ask(1.0)
    assert math.isclose(found.to_dict()["difference"], 0.0, abs_tol=1e-12)
