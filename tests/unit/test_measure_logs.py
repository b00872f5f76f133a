"""What the kit writes is what the tools print, and our own readers read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.interop import read_log
from sim.interop.babelstream import BabelStreamLog
from sim.interop.hipblaslt_bench import HipblasltLog
from sim.interop.rccl_tests import RcclLog
from sim.measure.attention import AttentionTiming, attention_csv
from sim.measure.babelstream_log import babelstream_table
from sim.measure.exchanges import KINDS, bus_factor, count_of, size_of
from sim.measure.gemm import GemmTiming, copies_of, set_bytes
from sim.measure.gemm_shapes import GemmShape
from sim.measure.hipblaslt_log import hipblaslt_csv
from sim.measure.rccl_log import CollectiveRow, RankDevice, rccl_table
from sim.measure.stopwatch import Timing
from sim.measure.streams import StreamTiming
from sim.measure.telemetry import Reading
from sim.ops import Attention


def timing(seconds: float) -> Timing:
    return Timing((seconds,) * 5)


def gemm(shape: GemmShape, seconds: float, reading: Reading | None = None) -> GemmTiming:
    return GemmTiming(shape, timing(seconds), 3, 0.002, reading or Reading(None, None))


def columns(text: str) -> list[dict[str, str]]:
    header, *rows = text.splitlines()
    names = header.removeprefix("[0]:").split(",")
    return [dict(zip(names, row.strip().split(","), strict=True)) for row in rows]


def test_a_product_prints_the_rates_of_a_published_row() -> None:
    # MI300X, bf16, 1848.09 us: hipblaslt-bench printed 709258 GFLOP/s and 317.15 "GB/s", which are GiB.
    found = columns(
        hipblaslt_csv(
            [gemm(GemmShape(4864, 4096, 32896, "bf16", "NN"), 1848.09e-6)], fp8_type="f8_r", gpu_timer=True
        )
    )
    (row,) = found
    assert (row["m"], row["n"], row["k"]) == ("4096", "4864", "32896")
    assert float(row["hipblaslt-Gflops"]) == pytest.approx(709258, rel=1e-5)
    assert float(row["hipblaslt-GB/s"]) == pytest.approx(317.15, rel=1e-4)


@pytest.mark.parametrize(("layout", "lda", "ldb"), [("TN", 30, 30), ("NN", 20, 30), ("NT", 20, 10)])
def test_leading_dimensions_follow_the_layout(layout: str, lda: int, ldb: int) -> None:
    (row,) = columns(
        hipblaslt_csv([gemm(GemmShape(10, 20, 30, "fp16", layout), 1e-3)], fp8_type="f8_r", gpu_timer=False)
    )
    assert (row["transA"] + row["transB"], int(row["lda"]), int(row["ldb"]), int(row["ldc"])) == (
        layout,
        lda,
        ldb,
        20,
    )
    assert row["use_gpu_timer"] == "0"


def test_eight_bit_products_leave_in_bf16_and_are_scaled() -> None:
    shape = GemmShape(16, 32, 64, "fp8")
    (row,) = columns(
        hipblaslt_csv([gemm(shape, 1e-3, Reading(1210.0, 750.0))], fp8_type="f8_fnuz_r", gpu_timer=True)
    )
    assert (row["a_type"], row["d_type"], row["scaleA"]) == ("f8_fnuz_r", "bf16_r", "1")
    assert (row["sampled-clock-MHz"], row["sampled-power-W"]) == ("1210", "750")
    assert set_bytes(shape) == 16 * 64 + 64 * 32 + 2 * 16 * 32


def test_the_reader_reads_products(tmp_path: Path) -> None:
    shapes = [GemmShape(128, 256, 512, dtype) for dtype in ("bf16", "fp16", "fp32", "fp8")]
    file = tmp_path / "gemm.csv"
    file.write_text(hipblaslt_csv([gemm(s, 3.3e-5) for s in shapes], fp8_type="f8_fnuz_r", gpu_timer=True))
    log = read_log(file)
    assert isinstance(log, HipblasltLog)
    assert log.contradictions == ()
    assert [row.dtype for row in log.rows] == [s.dtype for s in shapes]
    assert {(row.m, row.n, row.k, row.transposes) for row in log.rows} == {(256, 128, 512, "TN")}
    assert log.rows[0].rate_flops == pytest.approx(2 * 128 * 256 * 512 / 3.3e-5, rel=1e-5)


def test_sets_of_operands_fill_what_must_rotate() -> None:
    assert copies_of(100, 512) == 6
    assert copies_of(600, 512) == 1


def test_the_reader_reads_streams(tmp_path: Path) -> None:
    size = 2**30
    rows = [
        StreamTiming("Copy", 2.0 * size, timing(0.0005)),
        StreamTiming("Triad", 3.0 * size, timing(0.0008)),
    ]
    rows.append(StreamTiming("RmsNorm", 4.0 * size / 2, timing(0.0009)))
    file = tmp_path / "babelstream.txt"
    file.write_text(babelstream_table(rows, implementation="torch", array_bytes=size))
    log = read_log(file)
    assert isinstance(log, BabelStreamLog)
    assert log.contradictions == ()
    assert {row.kernel: row.bandwidth_Bps for row in log.rows} == {
        "Copy": pytest.approx(2 * size / 0.0005),
        "Triad": pytest.approx(3 * size / 0.0008),
    }
    assert "RmsNorm     2386" in file.read_text()


def collective(kind: str, ranks: int, *, wrong: int = 0) -> str:
    rows = []
    for size in (2**16, 2**20, 2**28):
        count = count_of(kind, size, ranks)
        rows.append(CollectiveRow(kind, size_of(kind, count, ranks), count, ranks, size / 1e11 + 2e-5, wrong))
    devices = [
        RankDevice(rank // 4, rank % 4, f"0000:{rank:02x}:00.0", "AMD Instinct MI300X")
        for rank in range(ranks)
    ]
    return rccl_table(kind, rows, devices, backend="nccl", samples_s=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reader_infers_ranks_and_collective(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text(collective(kind, 8))
    log = read_log(file)
    assert isinstance(log, RcclLog)
    (table,) = log.tables
    assert (table.contradictions, table.warnings, table.dropped) == ((), (), ())
    assert table.collective == {"send_recv": "send"}.get(kind, kind)
    assert table.ranks == 8
    assert table.launch.hosts == 2
    assert not table.launch.single_process
    assert table.rows[-1].time_s() == pytest.approx(2**28 / 1e11 + 2e-5, rel=1e-4)


def test_wrong_results_are_said_and_dropped_by_the_reader(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text(collective("all_reduce", 4) + collective("all_reduce", 4, wrong=7))
    assert "# Out of bounds values : 21 FAILED" in file.read_text()
    log = read_log(file)
    assert isinstance(log, RcclLog)
    assert [len(table.dropped) for table in log.tables] == [0, 3]


def test_rows_align_with_a_published_one() -> None:
    # rccl-tests on 8 MI300X, 1 GiB.
    row = CollectiveRow("all_reduce", 2**30, 2**28, 8, 5970.6e-6, 0)
    published = "  1073741824     268435456     float     sum      -1  5970.6  179.84  314.72      0"
    assert published in rccl_table("all_reduce", [row], [], backend="nccl", samples_s=1.0)


def test_bus_factors() -> None:
    factors = {kind: bus_factor(kind, 8) for kind in KINDS}
    assert factors == {
        "all_reduce": 1.75, "all_gather": 0.875, "reduce_scatter": 0.875, "all_to_all": 0.875, "send_recv": 1.0,
    }  # fmt: skip


def test_attention_rates_count_the_causal_half_and_backward_two_and_a_half_times() -> None:
    def op(*, backward: bool) -> Attention:
        return Attention(2, 32, 8, 8192, 128, causal=True, backward=backward, fused=True)

    full = 4 * 2 * 32 * 128 * 8192**2
    text = attention_csv([AttentionTiming(op(backward=b), timing(1e-3)) for b in (False, True)], "MI300X")
    forward, backward = columns(text)
    assert float(forward["tflops"]) == pytest.approx(full / 2 / 1e-3 / 1e12, rel=1e-5)
    assert float(backward["tflops"]) == pytest.approx(2.5 * full / 2 / 1e-3 / 1e12, rel=1e-5)
    assert (backward["pass"], backward["mask"], backward["heads_kv"]) == ("bwd", "causal", "8")
