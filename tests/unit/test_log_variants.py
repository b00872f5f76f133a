"""What real logs have besides the tables: launchers, several tests in one file, wrong results, other separators."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.logs import DATA, HEADER, devices, rccl_text

from sim.interop import BabelStreamLog, HipblasltLog, RcclLog, RcclTable, SmiLog, TransferBenchLog, read_log
from sim.report.terminal.collective_page import collective_table

MIB = 2**20
GOOD = [(MIB, 30e-6), (64 * MIB, 430e-6), (1024 * MIB, 5970e-6)]


@pytest.fixture
def write(tmp_path: Path):  # type: ignore[no-untyped-def]
    def written(text: str, name: str = "log.txt") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


def tables(path: Path) -> tuple[RcclTable, ...]:
    log = read_log(path)
    assert isinstance(log, RcclLog)
    return log.tables


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "0: ",
        " 12: ",
        "[1,0]<stdout>:",
        "[rank0]: ",
        "node-01: ",
        "[prterun-a-1@1,0]<stdout>: ",
        "0: [rank0]: ",
        "\x1b[32m",
    ],
)
def test_prefixes_change_nothing(write, prefix: str) -> None:  # type: ignore[no-untyped-def]
    text = (DATA / "rccl_mi350x_two_sided.txt").read_text()
    plain, marked = (
        tables(write("\n".join(p + line for line in text.splitlines()) + "\n"))[0] for p in ("", prefix)
    )
    assert marked.rows == plain.rows
    assert (marked.ranks, marked.launch.devices) == (8, plain.launch.devices)


def test_debug_output_between_rows_is_passed_over(write) -> None:  # type: ignore[no-untyped-def]
    noise = "host:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"
    text = "\n".join(f"{line}\n{noise}" for line in rccl_text("all_reduce", 8, GOOD).splitlines())
    (found,) = tables(write(text + "\nhost:12:34 [0] NCCL INFO NCCL_PROTO set by environment to LL\n"))
    assert len(found.rows) == 3
    assert found.launch.transports == ("NET/Socket/0",)
    assert found.launch.settings == {"NCCL_PROTO": "LL"}


def test_rows_with_wrong_results_are_dropped_and_told(write) -> None:  # type: ignore[no-untyped-def]
    good = rccl_text("all_reduce", 8, GOOD)
    last = next(line for line in good.splitlines() if line.split()[0] == str(1024 * MIB))
    (found,) = tables(write(good.replace(last, last.removesuffix("0") + "17")))
    assert [row.size_bytes for row in found.rows] == [MIB, 64 * MIB]
    assert [row.size_bytes for row in found.dropped] == [1024 * MIB]
    assert any("dropped 1 rows with wrong results" in warning for warning in found.warnings)


def test_an_old_error_above_what_the_format_allows_is_wrong(write) -> None:  # type: ignore[no-untyped-def]
    header = "# size count type redop time algbw busbw error\n"
    rows = "8 2 float sum 25.06 0.00 0.00 1e-07\n256 64 float sum 29.09 0.01 0.02 2e+00\n512 64 double sum 29.0 0.02 0.04 nan\n"
    (found,) = tables(write(header + rows))
    assert [row.size_bytes for row in found.rows] == [8]
    assert [row.size_bytes for row in found.dropped] == [256, 512]


def test_not_applicable_in_place_marks_an_all_to_all(write) -> None:  # type: ignore[no-untyped-def]
    row = "1048576 32768 float none -1 30.0 34.95 30.58 0 30.0 34.95 30.58 N/A\n"
    (found,) = tables(write(HEADER + " time algbw busbw #wrong\n" + row))
    assert (found.collective, found.ranks) == ("all_to_all", 8)
    assert found.rows[0].in_place is not None
    assert found.rows[0].in_place.wrong is None


def test_unchecked_results_are_neither_wrong_nor_right(write) -> None:  # type: ignore[no-untyped-def]
    (found,) = tables(write(rccl_text("all_reduce", 8, GOOD, wrong="N/A")))
    assert len(found.rows) == 3
    assert found.rows[0].out_of_place is not None
    assert found.rows[0].out_of_place.wrong is None


def test_several_tests_in_one_file_are_several_tables(write) -> None:  # type: ignore[no-untyped-def]
    text = rccl_text("all_reduce", 8, GOOD, devices(8)) + rccl_text("all_gather", 4, GOOD, devices(4))
    found = tables(
        write(
            text.replace("# all_reduce_perf", "# nThread 1 nGpus 1\n# all_reduce_perf").replace(
                "# all_gather_perf", "# nThread 1 nGpus 1\n# all_gather_perf"
            )
        )
    )
    assert [(t.collective, t.ranks, len(t.launch.devices)) for t in found] == [
        ("all_reduce", 8, 8),
        ("all_gather", 4, 4),
    ]


def test_a_row_whose_rate_is_not_size_over_time_is_a_contradiction(write) -> None:  # type: ignore[no-untyped-def]
    text = rccl_text("all_reduce", 8, GOOD)
    changed = text.replace("430.000000", "330.000000")
    (found,) = tables(write(changed))
    assert found.ranks == 8
    (message,) = found.contradictions
    assert "is not size over time" in message
    assert found.odd_rows == (
        next(i for i, line in enumerate(changed.splitlines(), 1) if "330.0000" in line),
    )


def test_a_row_of_another_number_of_ranks_is_a_contradiction(write) -> None:  # type: ignore[no-untyped-def]
    eight, four = rccl_text("all_reduce", 8, GOOD).splitlines(), rccl_text("all_reduce", 4, GOOD).splitlines()
    (found,) = tables(write("\n".join([*eight[:3], four[2], *eight[3:]]) + "\n"))
    assert found.ranks == 8
    (message,) = found.contradictions
    assert "busbw/algbw is 1.5: all_reduce on 8 ranks has 1.75" in message


def test_more_devices_than_ranks_is_a_contradiction(write) -> None:  # type: ignore[no-untyped-def]
    (found,) = tables(write(rccl_text("all_reduce", 8, GOOD, devices(16))))
    assert any("lists 16 devices, busbw/algbw says 8 ranks" in message for message in found.contradictions)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"])
def test_the_predicted_table_can_be_read_back(write, kind: str) -> None:  # type: ignore[no-untyped-def]
    import sim

    content = sim.predict_collective(kind, node="mi300x-8x400g", sizes="1M:1G*8").to_dict()
    (found,) = tables(write(collective_table(content)))
    assert found.collective == kind
    assert [row.size_bytes for row in found.rows] == [row["size_bytes"] for row in content["rows"]]
    for read, row in zip(found.rows, content["rows"], strict=True):
        assert read.time_s() == pytest.approx(row["time_s"], rel=1e-3)
    assert found.contradictions == ()


def test_hipblaslt_winners_count_where_there_are_any(write) -> None:  # type: ignore[no-untyped-def]
    lines = (DATA / "hipblaslt_rocm7.csv").read_text().splitlines()
    text = "\n".join([lines[0], lines[1], lines[2], "Winner:", lines[0], lines[2], lines[3], ""])
    log = read_log(write(text))
    assert isinstance(log, HipblasltLog)
    assert [(row.n, row.k) for row in log.rows] == [(2048, 8192)]
    assert "slower solutions" in log.warnings[0]


def test_hipblaslt_rate_that_is_not_work_over_time(write) -> None:  # type: ignore[no-untyped-def]
    log = read_log(write((DATA / "hipblaslt_frequency.csv").read_text().replace("709258", "809258")))
    assert isinstance(log, HipblasltLog)
    assert "is not the work over the time" in log.contradictions[0]


def test_transferbench_single_test_with_commas(write) -> None:  # type: ignore[no-untyped-def]
    text = (
        "TransferBench v1.62.0\nTest 1:\n Executor: GPU 00 , 46.5 GB/s , 1.442 ms , 67108864 bytes , 46.5 GB/s (sum)\n"
        "     Transfer 00 , 46.555 GB/s , 1.442 ms , 67108864 bytes , G0 -> GPU00:008 -> G1\n"
    )
    log = read_log(write(text))
    assert isinstance(log, TransferBenchLog)
    assert log.transfers[0].bandwidth_Bps == pytest.approx(46.555e9)
    assert log.transfers[0].time_s == pytest.approx(1.442e-3)


def test_transferbench_matrix(write) -> None:  # type: ignore[no-untyped-def]
    text = "SRC\\DST |GPU 00 |GPU 01 |STotal |Actual\nGPU 00 | N/A | 46.1 | 46.1 | 46.1\nGPU 01 | 45.2 | N/A | 45.2 | 45.2\n"
    log = read_log(write(text))
    assert isinstance(log, TransferBenchLog)
    assert log.pairs_Bps == pytest.approx({(0, 1): 46.1e9, (1, 0): 45.2e9})


def test_babelstream_with_times_that_fit_and_that_do_not(write) -> None:  # type: ignore[no-untyped-def]
    head = "BabelStream\nVersion: 5.0\nFunction    MBytes/sec  Min (sec)   Max         Average\n"
    text = head + "Copy 4000000.0 0.00100 0.0011 0.00105\nTriad 3900000.0 {} 0.002 0.002\n"
    fits, differs = (read_log(write(text.format(seconds))) for seconds in ("0.001538", "0.00200"))
    assert isinstance(fits, BabelStreamLog)
    assert isinstance(differs, BabelStreamLog)
    assert fits.contradictions == ()
    assert fits.rows[0].average_s == pytest.approx(0.00105)
    assert "MB an array" in differs.contradictions[0]


def test_babelstream_csv(write) -> None:  # type: ignore[no-untyped-def]
    text = "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime\nCopy,100,33554432,8,4000000,0.000134,0.0002,0.00015\n"
    log = read_log(write(text))
    assert isinstance(log, BabelStreamLog)
    assert log.rows[0].bandwidth_Bps == pytest.approx(4e12)


def test_nvidia_smi_csv(write) -> None:  # type: ignore[no-untyped-def]
    log = read_log(
        write("timestamp, index, power.draw [W], temperature.gpu\n2026/01/01 10:00:00.000, 3, 612.30 W, 55\n")
    )
    assert isinstance(log, SmiLog)
    assert (log.rows[0].gpu, log.rows[0].power_W, log.rows[0].hotspot_C) == (3, 612.3, 55.0)


def test_what_sim_measure_writes_is_read(write) -> None:  # type: ignore[no-untyped-def]
    from sim.measure.rccl_log import CollectiveRow, RankDevice, rccl_table

    rows = [CollectiveRow("all_gather", size, size // 32, 8, seconds, wrong=0) for size, seconds in GOOD]
    gpus = [RankDevice(0, i, None, "AMD Instinct MI300X") for i in range(8)]
    (found,) = tables(write(rccl_table("all_gather", rows, gpus, backend="nccl", samples_s=1.0)))
    assert (found.collective, found.ranks, len(found.launch.devices)) == ("all_gather", 8, 8)
    assert [row.time_s() for row in found.rows] == pytest.approx([seconds for _, seconds in GOOD], rel=1e-3)
    assert found.contradictions == ()
    assert not found.launch.single_process
