"""The predicted rccl-tests table."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from fakes.logs import DATA

from hwmodels.catalog import UnknownName
from sim.collective import CollectiveError, collective_kind, parse_sizes, predict_collective
from sim.interop.bus_bandwidth import bus_factor

GIB = 2**30


def plateau(
    kind: str = "all_reduce", node: str = "mi300x-8x400g", nodes: int = 1, gpus: int | None = None
) -> float:
    return predict_collective(kind, node=node, nodes=nodes, gpus=gpus, sizes="16G").rows[0].busbw_Bps


@pytest.mark.parametrize(("gpus", "links"), [(2, 1), (4, 3), (8, 7)])
def test_a_group_of_a_mesh_reaches_its_own_links(gpus: int, links: int) -> None:
    """A pair of MI300X has one link of 45 GB/s, four have three, eight seven (published: 46, 138, 316)."""
    assert plateau(gpus=gpus) == pytest.approx(links * 45.3e9, rel=0.04)


def test_a_switch_gives_any_group_the_same() -> None:
    pair, whole = (plateau(node="h200-8x400g", gpus=gpus) for gpus in (2, 8))
    assert pair == pytest.approx(whole, rel=0.03)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "send"])
def test_bandwidths_are_those_of_rccl_tests(kind: str) -> None:
    table = predict_collective(kind, node="mi300x-8x400g", nodes=2)
    assert [row.size_bytes for row in table.rows] == [8 * 2**i for i in range(32)]
    for row in table.rows:
        assert row.algbw_Bps == pytest.approx(row.size_bytes / row.time_s)
        assert row.busbw_Bps == pytest.approx(row.algbw_Bps * bus_factor(kind, 16))
    assert all(a.time_s <= b.time_s for a, b in pairwise(table.rows))


def test_counts_are_per_rank_where_ranks_hold_parts() -> None:
    whole, parts = (
        predict_collective(op, node="mi300x-8x400g", sizes="1M").rows[0]
        for op in ("all_reduce", "all_gather")
    )
    assert (whole.count, parts.count) == (2**18, 2**15)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("8:64*2", (8, 16, 32, 64)),
        ("8:64", (8, 16, 32, 64)),
        ("1K:3K+1K", (1024, 2048, 3072)),
        ("1M, 1GiB,8", (2**20, 2**30, 8)),
        ("1G:1G*2", (GIB,)),
        ("1:30*3", (1, 3, 9, 27)),
        ("1.5K", (1536,)),
        ("8,8", (8,)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    "text", ["", "8:", "x", "0", "-1", "8:4", "8:64*1", "8:64*x", "1Q", "8:16G+8", "9" * 30, "1:2:3"]
)
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(CollectiveError, match="--sizes"):
        parse_sizes(text)


@pytest.mark.parametrize("name", ["allreduce", "all-reduce", "all_reduce_perf", " AllReduce "])
def test_names_of_a_collective(name: str) -> None:
    assert collective_kind(name) == "all_reduce"


def test_what_a_machine_cannot_do() -> None:
    with pytest.raises(CollectiveError, match=r"unknown collective 'all_gahter'; known: all_gather, "):
        predict_collective("all_gahter", node="mi300x-8x400g")
    with pytest.raises(CollectiveError, match="9 GPUs: 1 x mi300x-8x400g have 8"):
        predict_collective("all_reduce", node="mi300x-8x400g", gpus=9)
    with pytest.raises(CollectiveError, match="part of a node"):
        predict_collective("all_reduce", node="mi300x-8x400g", nodes=2, gpus=9)
    with pytest.raises(CollectiveError, match="takes two or more"):
        predict_collective("all_reduce", node="mi300x-8x400g", gpus=1)
    with pytest.raises(CollectiveError, match="0 nodes"):
        predict_collective("all_reduce", node="mi300x-8x400g", nodes=0)
    with pytest.raises(CollectiveError, match=r"is for mi325x, the node has mi300x"):
        predict_collective("all_reduce", node="mi300x-8x400g", stack="primus-2026-mi325x")
    with pytest.raises(UnknownName, match="mi300x-8x400g"):
        predict_collective("all_reduce", node="mi300x-8x400")


def test_the_prediction_cites_and_says_what_it_assumed() -> None:
    content = predict_collective("all_reduce", node="mi300x-8x400g", nodes=2).to_dict()
    assert any("mi300x-8x400g: scale_up.usable_bandwidth = 4" in source for source in content["sources"])
    assert any("connectx-7: usable_bandwidth" in source for source in content["sources"])
    assert any(warning.startswith("no stack named: ") for warning in content["warnings"])


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "sim.cli", "collective", *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=cwd)


def test_json_has_the_documented_rows() -> None:
    done = command("all_reduce", "--node", "mi300x-8x400g", "--sizes", "1M,1G", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["size_bytes"] for row in rows] == [2**20, GIB]
    assert {"size_bytes", "time_s", "algbw_Bps", "busbw_Bps"} <= set(rows[0])


def test_comparison_prints_verdicts_and_causes() -> None:
    log = str(DATA / "rccl_mi350x_two_sided.txt")
    done = command("all_reduce", "--node", "mi350x-8x400g", "--compare", log)
    assert done.returncode == 0, done.stderr
    assert "single-process (certain)" in done.stdout
    assert "3 suspicious" in done.stdout
    content = json.loads(command("all_reduce", "--node", "mi350x-8x400g", "--compare", log, "--json").stdout)
    assert content["verdicts"]["suspicious"] == 3
    assert content["rows"][0]["causes"] == ["single-process"]


def test_bad_input_is_a_message_and_exit_code_2(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    for arguments, said in (
        (("all_reduce", "--node", "mi300"), "error: unknown node 'mi300'"),
        (("all_reduce", "--node", "mi300x-8x400g", "--sizes", "1Q"), "'1Q' is no size"),
        (("all_reduce", "--node", "mi300x-8x400g", "--compare", str(empty)), f"{empty}:1: is empty"),
        (
            ("all_reduce", "--node", "mi300x-8x400g", "--compare", "x", "--sizes", "8"),
            "--sizes: the sizes come from",
        ),
    ):
        done = command(*arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_a_plot_without_plotly_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sim.report.collective_plot import MissingPlotly, write_plot

    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    content = predict_collective("all_reduce", node="mi300x-8x400g").to_dict()
    with pytest.raises(MissingPlotly, match=r"pip install 'trainsim\[app\]'"):
        write_plot(content, tmp_path / "plot.html", "0")


def test_the_plot_shows_both_curves_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    page = tmp_path / "plot.html"
    log = str(DATA / "rccl_mi350x_two_sided.txt")
    done = command("all_reduce", "--node", "mi350x-8x400g", "--compare", log, "--plot", str(page))
    assert done.returncode == 0, done.stderr
    html = page.read_text("utf-8")
    assert "<script src=" not in html
    for words in (
        "predicted",
        "measured, suspicious",
        "bus bandwidth (GB",
        "message size (bytes)",
        "primus-2026-mi350x",
    ):
        assert words in html
