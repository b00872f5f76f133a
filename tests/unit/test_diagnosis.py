"""Each known fault, made on top of a prediction, is named; real logs and published cases too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.logs import DATA, devices, predicted_rows, rccl_text

from sim.collective import CollectiveError, collective_machine
from sim.diagnosis import Comparison, compare_collective
from sim.diagnosis.signs import signs

MIB, GIB = 2**20, 2**30
MI300X, MI350X, H100 = "mi300x-8x400g", "mi350x-8x400g", "h100-8x400g"


_MACHINE = collective_machine(MI300X, 1, None, None)
LINK_BPS = _MACHINE.node.scale_up.usable_bandwidth_Bps * _MACHINE.stack.scale_up_efficiency


class Bench:
    """Writes a log of the predicted machine with a fault in it, and compares it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self,
        slower: Callable[[int, float], float] = lambda _size, seconds: seconds,
        node: str = MI300X,
        nodes: int = 1,
        kind: str = "all_reduce",
        head: tuple[str, ...] = (),
    ) -> Comparison:
        rows = predicted_rows(kind, node, nodes, slower=slower)
        ranks = nodes * collective_machine(node, nodes, None, None).node.gpus
        self.path.write_text(rccl_text(kind, ranks, rows, head))
        return compare_collective(kind, self.path, node=node, nodes=nodes)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "log.txt")


def capped(kind: str, ranks: int, bus_Bps: float) -> Callable[[int, float], float]:
    """No size goes above ``bus_Bps`` of bus bandwidth."""
    from sim.interop.bus_bandwidth import bus_factor

    return lambda size, seconds: max(seconds, size * bus_factor(kind, ranks) / bus_Bps)


def first(found: Comparison) -> tuple[str, str]:
    return found.causes[0].key, found.causes[0].confidence


def verdict(found: Comparison, size: int) -> str:
    return next(row.verdict for row in found.rows if row.size_bytes == size)


@pytest.mark.parametrize(
    ("node", "nodes"), [(MI300X, 1), (MI300X, 2), (MI350X, 1), (H100, 4), ("mi250x-8gcd-4x200g", 2)]
)
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather"])
def test_a_log_as_predicted_is_normal(bench: Bench, node: str, nodes: int, kind: str) -> None:
    found = bench(node=node, nodes=nodes, kind=kind)
    assert found.causes == ()
    assert {row.verdict for row in found.rows} == {"normal"}


@pytest.mark.parametrize("links", [1, 2, 3, 4, 5])
def test_a_plateau_of_k_links(bench: Bench, links: int) -> None:
    found = bench(capped("all_reduce", 8, links * LINK_BPS))
    assert first(found) == ("few-links", "likely")
    assert f"as much as {links} of 7 links of 4" in found.causes[0].finding
    assert verdict(found, GIB) == "low"
    assert verdict(found, 1024) == "normal"


@pytest.mark.parametrize(("nics", "words"), [(1, "one NIC (rail)"), (2, "2 of 8 NICs"), (4, "4 of 8 NICs")])
def test_a_plateau_of_k_nics(bench: Bench, nics: int, words: str) -> None:
    machine = collective_machine(MI300X, 2, None, None)
    one = machine.node.nic.usable_bandwidth_Bps * machine.stack.scale_out_efficiency
    found = bench(capped("all_reduce", 16, nics * one), nodes=2)
    assert first(found) == ("few-nics", "likely")
    assert words in found.causes[0].finding


def test_one_slow_link(bench: Bench) -> None:
    """Seven times a link that reaches 4.5 sevenths of the others: no whole number of links."""
    found = bench(capped("all_reduce", 8, 4.5 * LINK_BPS))
    assert ("slow-link", "likely") in [(cause.key, cause.confidence) for cause in found.causes]
    assert "few-links" not in [cause.key for cause in found.causes]


@pytest.mark.parametrize("rate", [0.9e9, 2e9, 3e9])
def test_tcp_instead_of_rdma(bench: Bench, rate: float) -> None:
    assert first(bench(capped("all_reduce", 16, rate), nodes=2)) == ("tcp-fallback", "likely")


def test_tcp_that_the_log_admits_is_certain(bench: Bench) -> None:
    head = ("host:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0",)
    assert first(bench(capped("all_reduce", 16, 6e9), nodes=2, head=head)) == ("tcp-fallback", "certain")


@pytest.mark.parametrize(("node", "rate"), [(MI300X, 20e9), (H100, 24e9)])
def test_pcie_instead_of_the_links(bench: Bench, node: str, rate: float) -> None:
    assert first(bench(capped("all_reduce", 8, rate), node=node)) == ("pcie", "likely")


def test_host_memory_that_the_log_admits_is_certain(bench: Bench) -> None:
    head = ("host:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",)
    assert first(bench(capped("all_reduce", 8, 20e9), head=head)) == ("pcie", "certain")


def test_a_single_process_by_its_floor_and_by_its_devices(bench: Bench) -> None:
    def slower(_size: int, seconds: float) -> float:
        return max(seconds, 45e-6)

    guessed = bench(slower)
    assert first(guessed) == ("single-process", "possible")
    assert verdict(guessed, 1024) == "low"
    assert verdict(guessed, GIB) == "normal"
    known = bench(slower, head=tuple(devices(8, one_process=True)))
    assert first(known) == ("single-process", "certain")


def test_the_low_latency_protocol_at_large_sizes(bench: Bench) -> None:
    size, seconds = predicted_rows("all_reduce", H100)[-1]
    half = capped("all_reduce", 8, 0.48 * 1.75 * size / seconds)
    guessed = bench(half, node=H100)
    assert ("low-latency-protocol", "possible") in [(c.key, c.confidence) for c in guessed.causes]
    forced = bench(half, node=H100, head=("# NCCL_PROTO=LL mpirun -np 8 all_reduce_perf",))
    assert first(forced) == ("low-latency-protocol", "certain")


def test_everything_slow_by_one_factor(bench: Bench) -> None:
    found = bench(lambda _size, seconds: seconds / 0.45)
    assert first(found) == ("numa-or-clock", "likely")
    assert {row.verdict for row in found.rows} == {"low"}
    assert "few-links" not in [cause.key for cause in found.causes]


def test_one_size_that_jitters(bench: Bench) -> None:
    found = bench(lambda size, seconds: seconds * (1.8 if size == 64 * MIB else 1.0))
    assert [cause.key for cause in found.causes] == ["jitter"]
    assert [row.size_bytes for row in found.rows if row.verdict == "suspicious"] == [64 * MIB]


def test_faster_than_the_machine_is_suspicious(bench: Bench) -> None:
    found = bench(lambda _size, seconds: seconds / 3)
    assert {row.causes for row in found.rows} == {("faster-than-the-machine",)}


def test_fewer_ranks_than_asked(tmp_path: Path) -> None:
    """Four of eight MI300X share three links each: their log is normal for four, low for eight (cases C01, C02b)."""
    log = tmp_path / "four.txt"
    log.write_text(rccl_text("all_reduce", 4, predicted_rows("all_reduce", MI300X, gpus=4)))
    found = compare_collective("all_reduce", log, node=MI300X)
    assert first(found) == ("fewer-ranks", "certain")
    assert "4 GPUs of a mesh share 3 links each; 13" in found.causes[0].finding
    assert [cause.key for cause in found.causes] == ["fewer-ranks"]
    assert verdict(found, GIB) == "low"
    assert compare_collective("all_reduce", log, node=MI300X, gpus=4).causes == ()


# Real logs.


def test_a_good_log_of_one_node_is_normal() -> None:
    """Case C02: 13 us floor, 319 GB/s plateau."""
    found = compare_collective("all_reduce", DATA / "rccl_mi300x_1_node.txt", node=MI300X)
    assert {row.verdict for row in found.rows} == {"normal"}
    assert found.causes == ()


def test_three_jitter_outliers_and_a_single_process() -> None:
    found = compare_collective("all_reduce", DATA / "rccl_mi350x_two_sided.txt", node=MI350X)
    odd = [row.size_bytes for row in found.rows if row.verdict == "suspicious"]
    assert odd == [64 * MIB, 256 * MIB, 2 * GIB]
    assert [(cause.key, cause.confidence) for cause in found.causes] == [
        ("single-process", "certain"),
        ("jitter", "likely"),
    ]
    assert all(
        row.verdict == "normal"
        for row in found.rows
        if row.size_bytes >= 4 * MIB and row.size_bytes not in odd
    )
    assert all(row.causes == ("single-process",) for row in found.rows if row.size_bytes <= 64 * 1024)


def test_bandwidth_that_falls_with_size_is_a_pathology() -> None:
    """Case C06: an all-gather over 4 nodes that takes 70 ms for 2 MiB."""
    log = DATA / "rccl_srun_label_allgather.txt"
    found = compare_collective("all_gather", log, node="mi250x-8gcd-4x200g", nodes=4)
    assert first(found) == ("transport-pathology", "likely")
    assert verdict(found, 2 * MIB) == "low"


def test_two_nodes_at_60_percent_without_a_whole_number_of_nics(tmp_path: Path) -> None:
    """Case C46: 216.5 GB/s at 1 GiB and 231 at 8 GiB on 2 x 8 H100, where 350 are due; no rule is sure of the cause."""
    rows = [(size, size * 1.875 / rate) for size, rate in ((GIB, 216.5e9), (8 * GIB, 231e9))]
    log = tmp_path / "log.txt"
    log.write_text(rccl_text("all_reduce", 16, rows))
    found = compare_collective("all_reduce", log, node=H100, nodes=2)
    assert {row.verdict for row in found.rows} == {"low"}
    assert found.causes[0].key == "slow-link"
    assert "fixed cost" in found.causes[0].finding


def test_an_all_to_all_is_not_blamed_for_one_nic(tmp_path: Path) -> None:
    """Case C46b: an all-to-all over nodes is limited to one NIC's 48 GB/s."""
    log = tmp_path / "log.txt"
    log.write_text(
        rccl_text("all_to_all", 48, [(GIB, GIB * 47 / 48 / 48.5e9), (8 * GIB, 8 * GIB * 47 / 48 / 49e9)])
    )
    found = compare_collective("all_to_all", log, node=H100, nodes=6)
    assert "few-nics" not in [cause.key for cause in found.causes]


def test_logs_that_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(CollectiveError, match=r"the log is of all_reduce, not of all_gather"):
        compare_collective("all_gather", DATA / "rccl_mi300x_1_node.txt", node=MI300X)
    with pytest.raises(
        CollectiveError, match=r"the log has 16 ranks, 1 x mi300x-8x400g have 8: give --nodes 2"
    ):
        compare_collective("all_reduce", DATA / "rccl_mi300x_16_ranks.txt", node=MI300X)
    with pytest.raises(CollectiveError, match="is output of BabelStream: a log of rccl-tests is due here"):
        compare_collective("all_reduce", DATA / "babelstream_mi300x.txt", node=MI300X)


def test_unknown_ranks_are_told() -> None:
    found = compare_collective("all_reduce", DATA / "rccl_algo_proto.csv", node=MI350X, nodes=2)
    assert any("16 are taken" in warning for warning in found.warnings)


def test_the_signs_are_sourced_ranges() -> None:
    for low, high in vars(signs()).values():
        assert 0 < low < high
