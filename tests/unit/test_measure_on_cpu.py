"""The kit at work on the CPU: tiny shapes, gloo, two ranks. Needs the extra ``measure``."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sim
from sim.interop import read_log
from sim.interop.hipblaslt_bench import HipblasltLog
from sim.interop.rccl_tests import RcclLog
from sim.measure import gemm, streams
from sim.measure.attention import measure_attention
from sim.measure.device import Device
from sim.measure.exchanges import KINDS, Exchange
from sim.measure.gemm import measure_gemms
from sim.measure.gemm_shapes import GemmShape
from sim.measure.ranks import Rank
from sim.measure.stopwatch import HostClock, Stopwatch
from sim.ops import Attention

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

CPU = Device("cpu")
STOPWATCH = Stopwatch(HostClock(), 0.005)
ROOT = Path(sim.__file__).parents[1]
TINY = """\
schema: 1
name: tiny
model: {name: tiny, layers: 2, hidden: 128, ffn: 256, heads: 4, kv_heads: 2, vocab: 512}
cluster: {node: mi300x-8x400g, nodes: 1, stack: primus-2026-mi300x}
training: {sequence_length: 64, global_batch: 8, precision: bf16}
"""


def quiet(line: str) -> None:
    del line


@pytest.mark.parametrize("layout", ["TN", "NN", "NT"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_products_are_right_and_lie_in_memory_as_their_layout_says(dtype: str, layout: str) -> None:
    shape = GemmShape(48, 32, 64, dtype, layout)
    lefts, rights = gemm.operands(shape, 2, CPU)
    assert [tuple(lefts[1].shape), tuple(rights[1].shape)] == [(48, 64), (64, 32)]
    assert rights[0].is_contiguous() == (layout[0] == "N")
    assert lefts[0].is_contiguous() == (layout[1] == "N")
    multiply = gemm.product(shape, lefts, rights)
    for call in (0, 1, 2):
        torch.testing.assert_close(
            multiply(call).float(), (lefts[call % 2].float() @ rights[call % 2].float()), rtol=2e-2, atol=0.2
        )
    assert float(lefts[0].float().std()) == pytest.approx(1.0, abs=0.1)


def test_operands_rotate_through_more_than_a_cache() -> None:
    (found,), skipped = measure_gemms((GemmShape(64, 64, 64, "bf16"),), CPU, STOPWATCH, quiet)
    assert found.rotating_bytes >= CPU.rotating_bytes
    assert found.error < 0.01
    assert not skipped


def test_what_cannot_be_measured_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    huge, block = GemmShape(8192, 8192, 8192, "bf16"), GemmShape(64, 64, 64, "mxfp4")
    found, skipped = measure_gemms((huge, block), CPU, STOPWATCH, quiet)
    assert not found
    assert "too much for a trial on the CPU" in skipped[str(huge)]
    assert "mxfp4 products are not measured" in skipped[str(block)]
    # A library that multiplies wrongly is found out.
    monkeypatch.setattr(torch, "mm", lambda a, b, out: out.zero_())
    found, skipped = measure_gemms((GemmShape(64, 64, 64, "bf16"),), CPU, STOPWATCH, quiet)
    assert not found
    assert "wrong result: off by 1" in skipped["bf16 TN 64x64x64"]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("backward", [True, False])
def test_attention_runs_in_both_directions(fused: bool, backward: bool) -> None:
    op = Attention(1, 4, 2, 64, 16, causal=True, backward=backward, fused=fused)
    found, skipped = measure_attention((op,), CPU, STOPWATCH, quiet)
    assert not skipped
    assert found[0].timing.median_s > 0


def test_streaming_kernels_compute_what_they_are_named_for() -> None:
    size = 2**16
    kernels = {k.name: k for k in streams.babelstream_kernels(CPU, size)}
    assert list(kernels) == ["Copy", "Mul", "Add", "Triad", "Dot"]
    assert {name: k.bytes / size for name, k in kernels.items()} == {
        "Copy": 2,
        "Mul": 2,
        "Add": 3,
        "Triad": 3,
        "Dot": 2,
    }
    for kernel in (*kernels.values(), *streams.training_kernels(CPU, size)):
        kernel.call(0)
    (timing,) = streams.measure_streams((kernels["Triad"],), STOPWATCH, quiet)
    assert timing.best_Bps == pytest.approx(3 * size / timing.timing.min_s)


def exchanged(kind: str, ranks: list[Exchange]) -> None:
    """What the collective must do, written over all ranks at once."""
    sources = [e.source.clone() for e in ranks]
    for me, exchange in enumerate(ranks):
        total = sum(sources)
        count = exchange.count
        exchange.result.copy_(
            {
                "all_reduce": lambda total=total: total,
                "all_gather": lambda: torch.cat(sources),
                "reduce_scatter": lambda total=total, me=me, count=count: total[
                    me * count : (me + 1) * count
                ],
                "all_to_all": lambda me=me, count=count: torch.cat(
                    [s[me * count : (me + 1) * count] for s in sources]
                ),
                "send_recv": lambda me=me: sources[me - 1],
            }[kind]()
        )


@pytest.mark.parametrize("world", [2, 3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_right_results_pass_and_each_wrong_element_is_counted(kind: str, world: int) -> None:
    ranks = [Exchange.of(kind, 40, Rank(r, world, r, 0, ""), CPU) for r in range(world)]
    for exchange in ranks:
        exchange.fill()
    exchanged(kind, ranks)
    assert [e.wrong() for e in ranks] == [0] * world
    ranks[1].result[3:6] += 1
    assert [e.wrong() for e in ranks] == [0, 3, *[0] * (world - 2)]


def test_everything_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    command = ("measure", "all", "tiny.yaml", "-o", "out", "--device", "cpu", "--quick", "--seconds", "0.005")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "sim.cli", *command],
        cwd=tmp_path, capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    collectives = [f"{kind}.txt" for kind in KINDS]
    kernels = ["gemm.csv", "attention.csv", "babelstream.txt"]
    assert done.stdout.split() == [f"out/{name}" for name in (*collectives, *kernels, "provenance.json")]

    for kind in KINDS:
        log = read_log(out / f"{kind}.txt")
        assert isinstance(log, RcclLog)
        (table,) = log.tables
        assert not table.dropped
        assert table.collective == {"send_recv": "send"}.get(kind, kind)
        assert len(table.rows) == 3

    products = read_log(out / "gemm.csv")
    assert isinstance(products, HipblasltLog)
    assert products.contradictions == ()
    assert (512, 64, 128, "TN") in {(r.m, r.n, r.k, r.transposes) for r in products.rows}  # output projection
    with (out / "attention.csv").open() as file:
        assert {row["pass"] for row in csv.DictReader(file) if row["seq"] == "64"} == {"fwd", "bwd"}
    assert read_log(out / "babelstream.txt").format == "BabelStream"

    content = json.loads((out / "provenance.json").read_text())
    assert content["machine"]["torch"] == torch.__version__
    assert set(content["measurements"]) == {"gemm", "attention", "stream", "collectives"}
    assert content["measurements"]["gemm"]["scenario"] == "tiny"
    assert content["measurements"]["collectives"]["ranks"] == 2
    assert os.uname().nodename not in (out / "provenance.json").read_text()
