"""Training logs of three frameworks: what is read, what is warm-up, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.interop import LogError, TrainingLog, read_log, read_training_log

DATA = Path(__file__).resolve().parents[1] / "data" / "training_logs"
GIB = 2.0**30


def read(name: str) -> TrainingLog:
    log = read_log(DATA / name)
    assert isinstance(log, TrainingLog)
    return log


def megatron_line(iteration: int, milliseconds: float, prefix: str = " ") -> str:
    return (
        f"{prefix}[2024-08-26 10:00:00] iteration {iteration:8}/     100 | consumed samples: {iteration * 64:12} | "
        f"elapsed time per iteration (ms): {milliseconds:.1f} | global batch size:    64 | lm loss: 1.0E+01 |\n"
    )


def written(folder: Path, text: str, name: str = "train.log") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_megatron() -> None:
    log = read("megatron.log")
    assert log.format == "Megatron-LM"
    assert (log.gpus, log.global_batch, log.sequence_length) == (128, 256, 4096)
    assert log.settings["recompute_granularity"] == "full"
    assert [step.iteration for step in log.steps] == [1, 2, 3, 4, 5, 6]
    assert log.step_time_s == pytest.approx(11.815)  # median of 11.81, 11.82, 23.6 and 11.8
    assert log.pace.stalls == 1
    assert log.pace.stalled_share == pytest.approx((23.6 - 11.815) / (11.81 + 11.82 + 23.6 + 11.8))
    memory = log.peak_memory
    assert memory is not None
    assert (memory.kind, memory.peak_bytes) == ("allocated", 60129.25 * 2.0**20)


def test_a_number_cut_in_the_middle_is_not_read() -> None:
    log = read("megatron.log")  # the last line breaks off after "118"
    assert min(step.seconds or 0.0 for step in log.steps) > 11.0
    assert "megatron.log:19" in log.warnings[0]


def test_primus_prints_gigabytes_and_means_gibibytes() -> None:
    log = read("primus.log")
    assert log.format == "Primus"
    assert log.gpus == 8
    assert log.step_time_s == pytest.approx(13.3753)  # the step itself, not the mean beside it
    assert log.tokens_per_s_per_gpu == pytest.approx(9804.9)
    memory = log.peak_memory
    assert memory is not None
    assert (memory.kind, memory.peak_bytes) == ("device", pytest.approx(153.81 * GIB))
    assert log.capacity_bytes == pytest.approx(255.98 * GIB)  # a "256 GB" MI325X


def test_primus_of_2026_has_other_labels() -> None:
    log = read("primus_2026.log")
    assert log.pace.tflops == pytest.approx(555.0)
    assert log.tokens_per_s_per_gpu == pytest.approx(8090.9)


def test_torchtitan_ranks_are_one_run_and_the_slower_sets_the_pace() -> None:
    log = read("torchtitan.log")
    assert log.format == "TorchTitan"
    assert [step.iteration for step in log.steps] == [1, 10, 20]
    assert log.tokens_per_s_per_gpu == pytest.approx(8000.0)  # of 7,990 and 8,010
    assert (log.gpus, log.global_batch, log.sequence_length) == (8, 16, 8192)
    assert log.step_time_s == pytest.approx(16 * 8192 / (8000.0 * 8))
    assert log.peak_flops == pytest.approx(1.3e15)
    memory = log.peak_memory
    assert memory is not None
    assert (memory.kind, memory.peak_bytes) == ("reserved", pytest.approx(47.55 * GIB))
    assert len(log.warnings) == 1  # the line cut off; ranks that repeat an iteration are no restart


def test_warm_up_ends_where_steps_are_steady(tmp_path: Path) -> None:
    times = [30000, 9000, 6000, 5500, *[4000] * 16]
    log = read_training_log(
        written(tmp_path, "".join(megatron_line(i + 1, ms) for i, ms in enumerate(times)))
    )
    assert log.pace.warm_up_lines == 4  # the first, one more iteration, and two of 6 and 5.5 s
    assert log.step_time_s == pytest.approx(4.0)
    assert (log.pace.p5, log.pace.p95) == (1.0, 1.0)


def test_slow_steps_in_the_middle_are_stalls_and_not_warm_up(tmp_path: Path) -> None:
    times = [9000, *[4000] * 10, 40000, *[4000] * 10]
    log = read_training_log(
        written(tmp_path, "".join(megatron_line(i + 1, ms) for i, ms in enumerate(times)))
    )
    assert log.pace.stalls == 1
    assert log.pace.stalled_share == pytest.approx(36.0 / (40.0 + 19 * 4.0))
    assert log.step_time_s == pytest.approx(4.0)


def test_drift_compares_the_last_third_with_the_first(tmp_path: Path) -> None:
    times = [4000 * (1 + 0.01 * i) for i in range(33)]
    log = read_training_log(
        written(tmp_path, "".join(megatron_line(i + 1, ms) for i, ms in enumerate(times)))
    )
    assert log.pace.drift == pytest.approx(0.2, abs=0.02)


def test_a_restart_warms_up_again(tmp_path: Path) -> None:
    first = "".join(megatron_line(i, 4000) for i in range(1, 9))
    second = "".join(megatron_line(i, 20000 if i == 5 else 4000) for i in range(5, 12))
    log = read_training_log(written(tmp_path, first + second))
    assert "started 2 times" in log.warnings[0]
    assert log.pace.stalls == 0
    assert log.pace.warm_up_lines == 4


def test_pieces_of_a_rotated_log_are_one(tmp_path: Path) -> None:
    older = written(tmp_path, "".join(megatron_line(i, 4000) for i in range(1, 6)), "train.log.1")
    newer = written(tmp_path, "".join(megatron_line(i, 5000) for i in range(6, 21)), "train.log")
    log = read_training_log(older, newer)
    assert len(log.steps) == 20
    assert log.step_time_s == pytest.approx(5.0)


def test_labelled_ranks_that_print_the_same_iteration(tmp_path: Path) -> None:
    lines = [
        megatron_line(i, ms, f"{rank}: ") for i in range(1, 8) for rank, ms in ((0, 4000.0), (1, 4100.0))
    ]
    log = read_training_log(written(tmp_path, "".join(lines)))
    assert len(log.steps) == 7
    assert log.step_time_s == pytest.approx(4.1)
    assert not log.warnings


def test_colours_whose_escape_was_lost(tmp_path: Path) -> None:
    text = (
        "[[32m20251202 06:56:28[0m][[36mrank-7/8[0m][[1mINFO [0m] [1m[--trainer.py:2560] : iteration 4408/ 5000 | "
        "consumed samples: 564224 | elapsed time per iteration (ms): 13100.0/13240.9 |[0m\n"
    )
    log = read_training_log(written(tmp_path, text))
    assert (log.gpus, log.step_time_s) == (8, pytest.approx(13.1))
    assert log.pace.within_warm_up


@pytest.mark.parametrize(
    ("content", "due"),
    [
        (b"", "is empty"),
        (b"Traceback (most recent call last):\n", "no training steps found"),
        (b"\x00\x01\x02\x03" * 99, "binary"),
        (
            b" iteration 1/ 10 | consumed samples: 1 | elapsed time per iteration (ms): 54",
            "no training steps found",
        ),
        (b"step: 1  loss: 8.0  memory: 1.0GiB(1.0%)  tps: 6,0", "no training steps found"),
        (b"# all_reduce_perf\n", "no training steps found"),
    ],
)
def test_what_is_no_training_log_is_refused_with_its_place(tmp_path: Path, content: bytes, due: str) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(content)
    with pytest.raises(LogError, match=due) as refused:
        read_training_log(path)
    assert str(refused.value).startswith(f"{path}:1: ")
