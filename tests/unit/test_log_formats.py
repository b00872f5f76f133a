"""Every example of tests/data/log_formats, value by value."""

from __future__ import annotations

import pytest
from fakes.logs import DATA

from sim.interop import (
    BabelStreamLog,
    HipblasltLog,
    MamfLog,
    MoriIoLog,
    RcclLog,
    RcclTable,
    RvsLog,
    SmiLog,
    TransferBenchLog,
    read_log,
)
from sim.interop.rccl_rows import RcclRow


def table(name: str) -> RcclTable:
    log = read_log(DATA / name)
    assert isinstance(log, RcclLog)
    assert len(log.tables) == 1
    return log.tables[0]


def at(found: RcclTable, size: int) -> RcclRow:
    return next(row for row in found.rows if row.size_bytes == size)


def test_every_example_is_read() -> None:
    examples = [path for path in sorted(DATA.iterdir()) if path.suffix != ".md"]
    assert len(examples) == 18
    for path in examples:
        read_log(path)


def test_rccl_today_with_a_device_list_that_is_cut() -> None:
    found = table("rccl_mi300x_1_node.txt")
    assert (found.collective, found.ranks, len(found.rows)) == ("all_reduce", 8, 15)
    assert found.average_busbw_Bps == pytest.approx(116.669e9)
    row = at(found, 17179869184)
    assert row.count == 4294967296
    assert (row.dtype, row.redop, row.root) == ("float", "sum", None)
    assert row.out_of_place is not None
    assert row.out_of_place.time_s == pytest.approx(94254e-6)
    assert row.out_of_place.algbw_Bps == pytest.approx(182.27e9)
    assert row.out_of_place.busbw_Bps == pytest.approx(318.98e9)
    assert row.out_of_place.wrong == 0
    assert row.in_place is None
    assert found.launch.gpus == ("AMD Instinct MI300X",)
    assert not found.launch.single_process
    assert found.contradictions == ()
    assert "2 of 8 ranks" in found.warnings[0]


def test_rccl_both_halves_of_one_process() -> None:
    found = table("rccl_mi350x_two_sided.txt")
    assert (found.collective, found.ranks, len(found.rows)) == ("all_reduce", 8, 31)
    row = at(found, 2**26)
    assert row.out_of_place is not None
    assert row.in_place is not None
    assert (row.out_of_place.time_s, row.in_place.time_s) == pytest.approx((1049.3e-6, 405.1e-6))
    assert row.in_place.busbw_Bps == pytest.approx(289.92e9)
    assert row.time_s() == pytest.approx(405.1e-6)
    assert found.launch.single_process
    assert found.contradictions == found.warnings == ()


def test_rccl_row_without_a_header() -> None:
    found = table("rccl_row_of_13_fields.txt")
    (row,) = found.rows
    assert found.ranks == 8
    assert [half.time_s for half in row.halves] == pytest.approx([41644e-6, 40903e-6])
    assert [half.wrong for half in row.halves] == [0, 0]


def test_rccl_old_columns() -> None:
    found = table("rccl_old_error_column.txt")
    assert (found.collective, found.ranks) == ("all_reduce", None)  # 0.01 and 0.02 GB/s tell no ranks
    assert [row.size_bytes for row in found.rows] == [8, 256, 1024]
    assert [row.out_of_place.time_s for row in found.rows if row.out_of_place] == pytest.approx(
        [25.06e-6, 29.09e-6, 31.25e-6]
    )
    assert [row.out_of_place.wrong for row in found.rows if row.out_of_place] == [0, 0, 0]


def test_rccl_under_srun_with_counts_per_rank() -> None:
    found = table("rccl_srun_label_allgather.txt")
    assert (found.collective, found.ranks) == ("all_gather", 32)  # 65536 B over 512 floats a rank
    assert at(found, 2097152).time_s() == pytest.approx(70248e-6)


def test_rccl_csv_with_algorithm_and_protocol() -> None:
    found = table("rccl_algo_proto.csv")
    assert (found.collective, found.ranks, len(found.rows)) == (None, None, 6)
    first, last = found.rows[0], found.rows[-1]
    assert (first.algorithm, first.protocol, first.channels, first.variant) == ("tree", "ll128", 64, "before")
    assert (last.algorithm, last.protocol, last.channels, last.variant) == ("", "", 48, "after")
    assert first.out_of_place is not None
    assert first.out_of_place.busbw_Bps == pytest.approx(127.38e9)
    assert first.time_s() is None
    assert first.time_s(1.875) == pytest.approx(33554432 * 1.875 / 127.38e9)


def test_rccl_ranks_come_from_the_bandwidths_and_the_title_is_contradicted() -> None:
    found = table("rccl_mi300x_16_ranks.txt")
    assert (found.collective, found.ranks, len(found.rows)) == ("all_reduce", 16, 8)
    (contradiction,) = found.contradictions
    assert contradiction.endswith("the launch asks for 32 ranks, busbw/algbw says 16")
    assert found.odd_rows == ()


def test_rccl_under_mpirun_tags() -> None:
    found = table("rccl_mpirun_tag.txt")
    assert (found.collective, found.ranks, len(found.rows)) == ("all_reduce", 16, 4)
    assert found.average_busbw_Bps == pytest.approx(142.65e9)


def test_hipblaslt_of_rocm_7() -> None:
    log = read_log(DATA / "hipblaslt_rocm7.csv")
    assert isinstance(log, HipblasltLog)
    row = log.rows[0]
    assert (len(log.rows), row.m, row.n, row.k, row.dtype, row.transposes) == (
        3,
        16,
        8192,
        65536,
        "fp16",
        "NN",
    )
    assert row.time_s == pytest.approx(440.9e-6)
    assert row.rate_flops == pytest.approx(38.964e12)
    assert row.bandwidth_Bps == pytest.approx(2273 * 2**30, rel=1e-12)
    assert log.rows[2].bandwidth_Bps is None
    assert log.contradictions == ()


def test_hipblaslt_with_clocks() -> None:
    log = read_log(DATA / "hipblaslt_frequency.csv")
    assert isinstance(log, HipblasltLog)
    (row,) = log.rows
    assert (row.dtype, row.clock_Hz, row.memory_clock_Hz) == ("bf16", 1210e6, 900e6)
    assert row.rate_flops == pytest.approx(709.258e12)


def test_hipblaslt_of_2023() -> None:
    log = read_log(DATA / "hipblaslt_2023.csv")
    assert isinstance(log, HipblasltLog)
    (row,) = log.rows
    assert (row.m, row.dtype, row.bandwidth_Bps) == (128, "", None)
    assert row.time_s == pytest.approx(7.9e-6)
    assert row.flop / row.time_s == pytest.approx(row.rate_flops, rel=1e-3)


def test_transferbench() -> None:
    log = read_log(DATA / "transferbench_a2a.txt")
    assert isinstance(log, TransferBenchLog)
    assert (log.size_bytes, log.compute_units) == (67108864, 8)
    assert log.average_gpu_Bps == pytest.approx(46.55e9)
    assert log.aggregate_gpu_Bps == pytest.approx(2606.9e9)
    assert log.aggregate_cpu_Bps == pytest.approx(1937.9e9)
    (transfer,) = log.transfers
    assert (transfer.source, transfer.executor, transfer.destination) == ("F00", "GPU00:008", "F01")
    assert (transfer.size_bytes, transfer.bandwidth_Bps) == (67108864, None)
    (total,) = log.gpus
    assert total.sum_Bps == pytest.approx((325e9, 327e9))
    assert total.actual_Bps == pytest.approx((315.7e9, 319.3e9))


def test_babelstream() -> None:
    log = read_log(DATA / "babelstream_mi300x.txt")
    assert isinstance(log, BabelStreamLog)
    rates = {row.kernel: row.bandwidth_Bps for row in log.rows}
    assert rates == pytest.approx(
        {
            "Copy": 4.177285e12,
            "Mul": 4.067069e12,
            "Add": 3.920853e12,
            "Triad": 3.885301e12,
            "Dot": 3.660781e12,
        }
    )
    assert log.rows[0].min_s is None


def test_rvs_takes_final_results_only() -> None:
    log = read_log(DATA / "rvs_gst.txt")
    assert isinstance(log, RvsLog)
    assert [(row.rate_flops, row.target_flops, row.met) for row in log.rows] == [
        (1687129e9, 1215000e9, True),
        (1238206e9, 1000000e9, True),
    ]
    assert [row.dtype for row in log.rows] == ["fp8", "fp8"]
    assert log.samples == 2


def test_mori_io() -> None:
    log = read_log(DATA / "mori_io_write.txt")
    assert isinstance(log, MoriIoLog)
    assert [row.size_bytes for row in log.rows] == [1024, 65536, 1048576, 67108864]
    assert log.rows[-1].average_Bps == pytest.approx(49.34e9)
    assert log.rows[0].average_latency_s == pytest.approx(5.87e-6)


def test_amd_smi() -> None:
    log = read_log(DATA / "amd_smi.txt")
    assert isinstance(log, SmiLog)
    (row,) = log.rows
    assert (row.gpu, row.power_W, row.energy_J) == (0, 238.0, None)


def test_mamf_line_and_table() -> None:
    line, best = read_log(DATA / "mamf_finder_line.txt"), read_log(DATA / "mamf_best_table.csv")
    assert isinstance(line, MamfLog)
    assert isinstance(best, MamfLog)
    assert (line.rows[0].m, line.rows[0].rate_flops) == (1024, 95.3e12)
    assert [(row.gpu, row.dtype, row.rate_flops) for row in best.rows] == [
        ("MI300X", "bf16", 668.4e12),
        ("MI325X", "bf16", 784.9e12),
        ("MI355X", "bf16", 1565e12),
    ]
