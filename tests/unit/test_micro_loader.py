"""Files of the micro-ledger: what a row becomes, and what a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.ledger.loader import LedgerError
from sim.ledger.micro_loader import load_micro, load_micro_file
from sim.ledger.micro_row import Attention, Collective, Gemm, Message, MicroRow, Stream

HEAD = "benchmark: {benchmark}\ngroups:\n  - source: {{title: a paper}}\n    shared: {shared}\n    rows:\n"
SHARED = "{kind: measured, confidence: high, split: check}"


def written(folder: Path, kind: str, *rows: str, shared: str = SHARED) -> Path:
    lines = "".join(f"      - {{{row}}}\n" for row in rows)
    path = folder / f"{kind}.yaml"
    path.write_text(HEAD.format(benchmark=kind, shared=shared) + lines)
    return path


def row(folder: Path, kind: str, fields: str, shared: str = SHARED) -> MicroRow:
    return load_micro_file(written(folder, kind, fields, shared=shared)).rows[0]


def complaints(folder: Path, kind: str, fields: str, shared: str = SHARED) -> str:
    with pytest.raises(LedgerError) as caught:
        load_micro_file(written(folder, kind, fields, shared=shared))
    return str(caught.value)


def test_a_gemm_row(tmp_path: Path) -> None:
    read = row(tmp_path, "gemm", "gpu: mi300x, dtype: bf16, m: 64, n: 32, k: 16, TFLOPs: 2, overhead_us: 5")
    assert read.subject == Gemm("mi300x", "bf16", ((64, 32, 16),))
    assert (read.value, read.unit, read.overhead_s) == (2e12, "FLOP/s", pytest.approx(5e-6))
    assert read.location == "gemm.yaml:6"
    assert read.scored


def test_a_row_overrides_what_its_group_shares(tmp_path: Path) -> None:
    shared = "{kind: floor, confidence: high, split: check, gpu: mi300x, op: triad}"
    read = row(tmp_path, "stream", "kind: measured, op: dot, GBps: 3870", shared)
    assert (read.kind, read.confidence) == ("measured", "high")
    assert read.subject == Stream("mi300x", "dot")


def test_shape_mixes_add_their_flops(tmp_path: Path) -> None:
    read = row(tmp_path, "gemm", "gpu: mi300x, dtype: bf16, shapes: [[1, 2, 3], [4, 5, 6]], TFLOPs: 2")
    assert isinstance(read.subject, Gemm)
    assert read.subject.flops == 2 * (1 * 2 * 3 + 4 * 5 * 6)


def test_attention_flops_halve_under_a_causal_mask_and_grow_backward(tmp_path: Path) -> None:
    fields = "gpu: mi355x, batch: 2, heads: 8, sequence: 1024, head_dim: 128, TFLOPs: 500"
    forward = row(tmp_path, "attention", f"{fields}, direction: forward, mask: full").subject
    backward = row(tmp_path, "attention", f"{fields}, direction: backward, mask: causal").subject
    assert isinstance(forward, Attention)
    assert isinstance(backward, Attention)
    assert forward.flops == 4 * 2 * 8 * 1024**2 * 128
    assert backward.flops == 1.25 * forward.flops
    assert forward.kv_heads == 8  # as many as heads unless said


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [("all_reduce", 8, 1.75), ("all_reduce", 16, 1.875), ("all_gather", 8, 0.875), ("send", 2, 1.0)],
)
def test_bus_factors_are_those_of_rccl_tests(tmp_path: Path, op: str, ranks: int, factor: float) -> None:
    read = row(
        tmp_path, "collective", f"node: n, op: {op}, ranks: {ranks}, nodes: 1, size: 8, algbw_GBps: 100"
    )
    assert isinstance(read.subject, Collective)
    assert read.subject.bus_factor == factor
    assert (read.value, read.unit) == (pytest.approx(100e9 * factor), "B/s")


def test_a_message_row(tmp_path: Path) -> None:
    read = row(tmp_path, "message", "nic: connectx-7, op: write, size: 1024, batch: 1, time_us: 5.87")
    assert read.subject == Message("connectx-7", 1024.0, 1)
    assert read.unit == "s"


def test_what_is_set_aside_needs_no_subject(tmp_path: Path) -> None:
    read = row(tmp_path, "gemm", "gpu: gh200, TFLOPs: 828.6, set_aside: not in the catalog")
    assert (read.subject, read.set_aside, read.scored) == (None, "not in the catalog", False)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("gemm", "gpu: mi300x, dtype: bf16, m: 1, n: 1, k: 1, TFLOP: 2", "did you mean 'TFLOPs'"),
        ("gemm", "gpu: mi300x, dtype: bf16, m: 1, n: 1, TFLOPs: 2", ".k: missing"),
        ("gemm", "gpu: mi300x, dtype: bf16, m: 1, n: 1, k: 1", "the measured figure"),
        ("gemm", "gpu: mi300x, dtype: bf16, shapes: [[1, 2]], TFLOPs: 2", "a list of [m, n, k]"),
        ("attention", "gpu: mi300x, direction: up, mask: full, sequence: 1, head_dim: 8, TFLOPs: 2", "forward, backward"),
        ("stream", "gpu: mi300x, op: rotary, time_us: 3", "bytes"),
        ("collective", "node: n, op: all_reduce, ranks: 3, nodes: 2, size: 8, time_us: 1", "a multiple of nodes"),
        ("constants", "model: rccl_0", "set_aside"),
    ],
)  # fmt: skip
def test_wrong_rows_are_told_what_is_wrong(tmp_path: Path, kind: str, fields: str, message: str) -> None:
    assert message in complaints(tmp_path, kind, fields)


@pytest.mark.parametrize("missing", ["kind", "confidence", "split"])
def test_every_row_says_how_far_it_can_be_trusted(tmp_path: Path, missing: str) -> None:
    facts = {"kind": "measured", "confidence": "high", "split": "check"}
    shared = ", ".join(f"{key}: {value}" for key, value in facts.items() if key != missing)
    assert f".{missing}: missing" in complaints(
        tmp_path, "stream", "gpu: g, op: add, GBps: 1", f"{{{shared}}}"
    )


def test_a_group_without_a_source_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        f"benchmark: stream\ngroups:\n  - shared: {SHARED}\n    rows:\n      - {{gpu: g, op: add, GBps: 1}}\n"
    )
    with pytest.raises(LedgerError, match="where the figures come from"):
        load_micro_file(path)


def test_problems_of_all_files_come_together(tmp_path: Path) -> None:
    written(tmp_path, "gemm", "gpu: mi300x")
    written(tmp_path, "stream", "gpu: mi300x")
    with pytest.raises(LedgerError) as caught:
        load_micro(tmp_path)
    assert {"gemm.yaml", "stream.yaml"} <= {Path(line.split(":")[0]).name for line in caught.value.errors}


def test_a_folder_without_files_and_one_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"holds no \*.yaml"):
        load_micro(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_micro(tmp_path / "none")
