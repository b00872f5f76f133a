"""Logs that are none: a located message each, in bounded memory, never a traceback."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
from fakes.logs import DATA

from sim.interop import LogError, lines, read_log


def fault(path: Path) -> str:
    with pytest.raises(LogError) as error:
        read_log(path)
    (message,) = error.value.errors
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def of(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "log.txt"
    path.write_bytes(content)
    return fault(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ":1: is empty: did the benchmark run"),
        (b"\n \n\n", ":1: holds blank lines only"),
        (b"\x7fELF\x02\x01\x01\0\0\0", ":1: binary data"),
        (b"# nThread 1 nGpus 1\n\x00\x01\x02", ":2: binary data"),
        (bytes(range(128, 256)) * 4, ":1: binary data"),
        (gzip.compress(b"# nThread 1", mtime=0), ":1: is gzip-compressed: unpack it first"),
        ("# nThread 1".encode("utf-16"), ":1: is UTF-16 text: save it as UTF-8"),
        (b"hello\nworld\n", ":1: no line of a known log: output of rccl-tests"),
        (b"#" * 70_000, ":1: a line of more than 64 KiB"),
        (b"# nThread 1 nGpus 1\n# Using devices\n", ":1: a table without rows: did the run finish?"),
        (b"# size count type redop root time algbw busbw #wrong\n", ":1: a table without rows"),
    ],
)  # fmt: skip
def test_what_is_no_log(tmp_path: Path, content: bytes, said: str) -> None:
    assert of(tmp_path, content).startswith(said)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert fault(tmp_path / "no.txt") == ": No such file or directory: the path of a log file is due here"
    assert fault(tmp_path) == ": is a folder: the path of a log file is due here"


def test_a_gigabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as file:
        file.write(b"# nThread 1 nGpus 1\n")
        file.truncate(2**30)
    assert fault(path).startswith(":1: 1,074 MB: a benchmark log of at most 67 MB is due here")


def test_memory_stays_bounded_while_a_long_log_is_searched(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("wb") as file:
        for _ in range(20):
            file.write(b"host:1:2 [0] NCCL INFO something that is said very often\n" * 10_000)
    tracemalloc.start()
    try:
        fault(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # the file has 11 MB


def test_a_log_that_grows_while_it_is_read_stops_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"# words\n" * 200)
    monkeypatch.setattr(lines, "_require_regular", lambda *_: monkeypatch.setattr(lines, "MAX_BYTES", 1000))
    assert ":126: " in fault(path)


@pytest.mark.parametrize(
    ("name", "cut", "said"),
    [
        ("rccl_mi300x_1_node.txt", "1073741824     268435456     float     sum", "of 4 fields, 9 or 13 are due"),
        ("rccl_mi300x_1_node.txt", "  1073741824     2684", "half a row"),
        ("rccl_mi300x_1_node.txt", "\n  107374", "half a row"),
        ("hipblaslt_rocm7.csv", "N,N,0,1,16,2048,8192,1", "a row of 8 fields, the header names 44"),
        ("hipblaslt_frequency.csv", "hipblaslt-GB/s,us", "a header without rows: did the run finish?"),
        ("transferbench_a2a.txt", "GPU 00 |     N/A  |       ?", "a row of 2 cells, 6 are due"),
        ("babelstream_mi300x.txt", "Add", "Add without a bandwidth"),
        ("rvs_gst.txt", "GFLOPS 1640057", "no final result"),
        ("rvs_gst.txt", "GFLOPS 1687129 Target GFLOPS: 12150", "a result without 'Target GFLOPS: NUMBER met"),
        ("mori_io_write.txt", "|    65536    |     1     |", "a row of 2 cells, 7 are due"),
        ("mamf_finder_line.txt", "95.3(median)", "a progress line without its rates"),
        ("mamf_best_table.csv", "MI325X,bf16,13312", "a row of 3 fields, the header names 6"),
        ("rccl_algo_proto.csv", "67108864,float,sum,155", "a row of 4 fields, the header names 8"),
    ],
)  # fmt: skip
def test_a_log_that_breaks_off(tmp_path: Path, name: str, cut: str, said: str) -> None:
    text = (DATA / name).read_text("utf-8")
    assert said in of(tmp_path, text[: text.index(cut) + len(cut)].encode())


def test_a_log_that_stops_between_rows_is_read_with_a_warning(tmp_path: Path) -> None:
    text = (DATA / "rccl_mi300x_1_node.txt").read_text("utf-8")
    path = tmp_path / "log.txt"
    path.write_text(text[: text.index("  8589934592")], "utf-8")
    assert any("Avg bus bandwidth" in warning for warning in read_log(path).warnings)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("94254", "94x54", "time: '94x54' is not a number"),
        ("94254", "0", "a time of 0"),
        ("182.27", "-182.27", "algbw: '-182.27' is not a number of zero or more"),
        ("182.27", "inf", "algbw: 'inf' is not a number"),
        ("17179869184 ", "17179869184" * 3 + " ", "size is 1.72e+32"),
        ("  -1   94254", "  x   94254", "root is 'x'"),
    ],
)  # fmt: skip
def test_fields_that_are_no_numbers(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (DATA / "rccl_mi300x_1_node.txt").read_text("utf-8")
    assert old in text
    message = of(tmp_path, text.replace(old, new).encode())
    assert message.startswith(":25: ")
    assert said in message
