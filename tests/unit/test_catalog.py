"""The hardware catalog: everything loads, every figure is sourced, faults name file and key."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hwmodels import catalog
from hwmodels.catalog import CatalogError, UnknownName, describe, files
from hwmodels.catalog.gpu_entry import build_gpu
from hwmodels.catalog.node_entry import build_node
from hwmodels.catalog.record import Record, read_yaml
from hwmodels.figure import CONFIDENCES
from hwmodels.stack import StackProfile

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALL = [(kind, name) for kind in catalog.KINDS for name in catalog.names(kind)]
_REQUIRED_GPUS = (
    *("mi100", "mi210", "mi250x-gcd", "mi300a", "mi300x", "mi325x", "mi350x", "mi355x", "mi455x"),
    *("a100-40gb", "a100-80gb", "h100-sxm", "h100-96gb-500w", "h200", "b200", "b300", "gb200", "gb300"),
)


@pytest.mark.parametrize(("kind", "name"), _ALL)
def test_every_entry_loads_and_every_figure_is_sourced(kind: str, name: str) -> None:
    entry = catalog.entry(kind, name)
    assert entry.name == name
    assert entry.title
    assert entry.figures
    for path, figure in entry.figures.items():
        assert figure.text, path
        assert figure.source, path
        assert figure.confidence in CONFIDENCES, path
        assert figure.note or figure.confidence not in ("assumed", "derived"), path


def test_the_gpus_that_must_be_there_are_there() -> None:
    assert set(_REQUIRED_GPUS) <= set(catalog.names("gpu"))


@pytest.mark.parametrize("name", _REQUIRED_GPUS)
def test_gpu_rates_and_memory_are_plausible(name: str) -> None:
    gpu = catalog.gpu(name)
    assert {"bf16", "fp16"} <= set(gpu.achievable_flops)
    for number_format in ("fp8", "mxfp4", "nvfp4"):
        assert (number_format in gpu.achievable_flops) == (number_format in gpu.peak_flops)
    for number_format, rate in gpu.achievable_flops.items():
        assert 0.4 < rate / gpu.peak_flops[number_format] < 0.9, number_format
    for clock in gpu.sustained_clock_Hz.values():
        assert 0.4 < clock / gpu.peak_clock_Hz < 1
    assert 1 < gpu.hbm_bytes / gpu.hbm_bandwidth_Bps * 1e2 < 10  # 10 to 100 ms to read all memory


def test_a_gcd_is_half_a_package() -> None:
    gcd = catalog.gpu("mi250x-gcd")
    assert gcd.unit == "GCD"
    assert gcd.peak_flops["bf16"] == 383e12 / 2
    assert gcd.compute_units == 220 / 2
    assert catalog.node("mi250x-8gcd-4x200g").gpus == 8


def test_asking_for_the_package_explains_the_gcd() -> None:
    with pytest.raises(UnknownName, match=r"one per GCD.*mi250x-gcd") as caught:
        catalog.gpu("mi250x")
    assert caught.value.nearest[0] == "mi250x-gcd"


@pytest.mark.parametrize(("asked", "first"), [("mi300", "mi300a"), ("MI300X", "mi300x"), ("h10", "h100-sxm")])
def test_unknown_names_list_the_nearest_first(asked: str, first: str) -> None:
    with pytest.raises(UnknownName) as caught:
        catalog.gpu(asked)
    error = caught.value
    assert (error.kind, error.name, error.nearest[0]) == ("gpu", asked, first)
    assert len(error.nearest) == len(catalog.names("gpu"))
    assert str(error).startswith("unknown GPU")


@pytest.mark.parametrize("name", ["", "../gpus/mi300x", "x" * 10_000, "connectx-7"])
def test_odd_names_are_unknown_not_broken(name: str) -> None:
    for kind in catalog.KINDS:
        if name not in catalog.names(kind):
            with pytest.raises(UnknownName) as caught:
                catalog.entry(kind, name)
            assert len(str(caught.value)) < 400


def test_an_unknown_kind_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="known: gpu, node"):
        catalog.names("cpu")
    with pytest.raises(ValueError, match="known: gpu, node"):
        catalog.entry("cpu", "epyc")


# The figures that published models of single-node runs rest on (bf16, fp8 in TFLOP/s; bus bandwidth in GB/s).
@pytest.mark.parametrize(
    ("node", "bf16", "fp8", "bus"),
    [
        ("mi300x-8x400g", 708, 1273, 318.5),
        ("mi325x-8x400g", 843, 1519, 318.5),
        ("mi350x-8x400g", 1308, 2689, 366.1),
        ("mi355x-8x400g", 1600, 3290, 361),
    ],
)
def test_amd_node_inputs(node: str, bf16: float, fp8: float, bus: float) -> None:
    entry = catalog.node(node)
    assert entry.gpu.achievable_flops["bf16"] == bf16 * 1e12
    assert entry.gpu.achievable_flops["fp8"] == fp8 * 1e12
    assert 7 * entry.scale_up.usable_bandwidth_Bps == pytest.approx(bus * 1e9, rel=1e-3)


def test_power_cap_law_reproduces_the_mi350x() -> None:
    fast, capped = catalog.gpu("mi355x"), catalog.gpu("mi350x")
    law = (capped.power_cap_W / fast.power_cap_W) ** 0.6
    for number_format in ("bf16", "fp8", "mxfp4"):
        expected = fast.achievable_flops[number_format] * law
        assert capped.achievable_flops[number_format] == pytest.approx(expected, rel=1e-3)


def test_lumi_node_shares_four_nics_among_eight_gcds() -> None:
    node = catalog.node("mi250x-8gcd-4x200g")
    assert node.nic_bandwidth_per_gpu_Bps == pytest.approx(12.5e9)
    assert node.scale_up.bus_bandwidth_Bps == {2: 130e9, 8: 94e9}


def test_hbm_streams_reach_what_triad_reaches() -> None:
    """BabelStream: 4090 GB/s on MI300X and 3538 on MI300A, of 5300 each."""
    for gpu, triad in (("mi300x", 4090), ("mi325x", None), ("mi300a", 3538)):
        share = catalog.newest_stack(gpu).stream_efficiency
        expected = 4090 / 5300 if triad is None else triad * 1e9 / catalog.gpu(gpu).hbm_bandwidth_Bps
        assert share == pytest.approx(expected, abs=5e-4), gpu


# Buffer bytes per second: a plateau of bus bandwidth over 2·7/8.
@pytest.mark.parametrize(
    ("node", "bus"), [("h200-8x400g", 473.1), ("b200-8x400g", 842.5), ("mi300x-8x400g", 0)]
)
def test_switches_that_add(node: str, bus: float) -> None:
    assert catalog.node(node).scale_up.in_switch_bandwidth_Bps == pytest.approx(bus * 1e9 / 1.75, rel=0.03)


def test_protocols_trade_latency_for_bandwidth() -> None:
    protocols = catalog.protocols()
    assert (
        [p.name for p in protocols.inside] == [p.name for p in protocols.across] == ["LL", "LL128", "Simple"]
    )
    for kind in (protocols.inside, protocols.across):
        assert [p.bandwidth for p in kind] == sorted(p.bandwidth for p in kind)
        assert kind[-1].bandwidth == 1.0  # the plateau, by definition
    latencies = [p.latency_s for p in protocols.across]
    assert latencies == sorted(latencies) == pytest.approx([37e-6, 87.8e-6, 209.2e-6])
    assert protocols.figures["across.LL.latency"].confidence == "high"


def test_base_entries_lend_only_what_is_not_said() -> None:
    base, other = catalog.gpu("h100-sxm"), catalog.gpu("h100-96gb-500w")
    assert other.power_cap_W == 500
    assert other.compute_units == base.compute_units
    assert other.figures["facts.l2"] == base.figures["facts.l2"]


def test_switch_ports() -> None:
    switch = catalog.switch("tomahawk-5")
    assert switch.ports[100e9] == 64  # 800 Gbps
    assert switch.latency_s is None


# Strictness


def _gpu_content() -> dict[str, Any]:
    content = read_yaml(Path(files.__file__).parent / "gpus" / "mi300x.yaml")
    content.pop("refused_names", None)
    return content


def _record(content: dict[str, Any]) -> Record:
    return Record(content, "gpus/x.yaml", files.shared_sources())


def _set(content: dict[str, Any], path: str, value: object) -> None:
    *tables, last = path.split(".")
    for table in tables:
        content = content[table]
    if value is ...:
        del content[last]
    else:
        content[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("hbm", ..., "gpus/x.yaml: hbm: missing"),
        ("speed", 3, "gpus/x.yaml: speed: unknown key"),
        ("hbm", "192 GB", "hbm: a figure is"),
        ("hbm.value", "192", "hbm: 192 has no unit"),
        ("hbm.value", "192 GB/s", "hbm: .*is a bandwidth"),
        ("hbm.confidence", "sure", "hbm.confidence: 'sure' is none of high"),
        ("hbm.source", "hearsay", "hbm.source: 'hearsay' is in no table"),
        ("hbm.surce", "x", "hbm.surce: unknown key"),
        ("hbm.confidence", "assumed", None),
        ("peak_flops.bf16.confidence", "assumed", "peak_flops.bf16.note: a figure that is assumed says how"),
        ("compute_units.value", "3.5", "compute_units: 3.5 is not a whole number"),
        ("status", "rumoured", "status: 'rumoured' is neither"),
        ("peak_flops", {}, "peak_flops: at least one figure"),
        ("peak_flops", 3, "peak_flops: a mapping of keys"),
        (
            "achievable_flops.bf16.value",
            "2 PFLOP/s",
            "achievable_flops.bf16: not above 0 and at most the peak",
        ),
        ("title", "", "title: '' is not a text"),
    ],
)
def test_faulty_gpu_files_are_refused_by_file_and_key(path: str, value: object, message: str | None) -> None:
    content = _gpu_content()
    _set(content, path, value)
    if message is None:
        build_gpu(_record(content))
        return
    with pytest.raises(CatalogError, match=message):
        build_gpu(_record(content))


def test_links_cannot_be_faster_than_they_are() -> None:
    content = read_yaml(Path(files.__file__).parent / "nodes" / "mi300x-8x400g.yaml")
    content["scale_up"]["usable_bandwidth"]["value"] = "65 GB/s"
    with pytest.raises(CatalogError, match=r"scale_up.usable_bandwidth: not above 0 and at most"):
        build_node(_record(content), catalog.gpu, catalog.nic)


# Stacks and inheritance, on a catalog of its own


@pytest.fixture
def own_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty stacks folder beside the real entries."""
    real = Path(files.__file__).parent
    for folder in ("gpus", "nics", "nodes", "switches", "sources.yaml", "protocols.yaml"):
        (tmp_path / folder).symlink_to(real / folder)
    (tmp_path / "stacks").mkdir()
    caches = (
        files.names,
        files.raw,
        files.shared_sources,
        files._refusals,
        catalog.stack,
        catalog.newest_stack,
    )
    monkeypatch.setattr(files, "_ROOT", tmp_path)
    for cached in caches:
        cached.cache_clear()
    yield tmp_path / "stacks"
    for cached in caches:
        cached.cache_clear()


def _figure(value: str, note: str = "") -> dict[str, str]:
    return {"value": value, "source": "lab", "confidence": "high", "note": note}


def _value(name: str, annotation: str) -> object:
    if annotation.startswith("Mapping"):
        return {"bf16": _figure("2")}
    if annotation == "bool":
        return _figure("true")
    return _figure("5 us" if name.endswith("_s") else "30 B" if "bytes" in name else "1")


def _stack(**changes: object) -> dict[str, Any]:
    """A complete stack file, whatever fields a profile has."""
    content: dict[str, Any] = {
        "title": "Lab stack",
        "date": "2025-11-12",
        "gpus": ["mi300x"],
        "tuned": True,
        "sources": {"lab": {"title": "Lab notes", "date": "2025-11-12"}},
        "attention_share": {"forward": _figure("0.8"), "backward": _figure("0.7")},
    }
    plain = {"name", "title", "date", "gpus", "inherits", "tuned", "attention_share", "embedding", "figures"}
    for field in fields(StackProfile):
        if field.name not in plain:
            content[field.name.removesuffix("_s")] = _value(field.name, str(field.type))
    return content | changes


def _write(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **content}), "utf-8")


def test_a_stack_reads_times_bytes_and_tables(own_catalog: Path) -> None:
    _write(own_catalog, "lab", _stack())
    stack = catalog.stack("lab")
    assert stack.kernel_gap_s == 5e-6
    assert stack.optimizer_bytes_per_parameter == 30
    assert stack.gemm_efficiency == {"bf16": 2.0}
    assert stack.blocking_p2p is True
    assert stack.attention_share == {"forward": 0.8, "backward": 0.7}
    assert stack.figures["kernel_gap"].source == "Lab notes (2025-11-12)"
    assert stack.figures["attention_share.forward"].value == 0.8


def test_a_stack_inherits_what_it_leaves_out(own_catalog: Path) -> None:
    _write(own_catalog, "old", _stack(gemm_efficiency={"bf16": _figure("0.8"), "fp8": _figure("0.7")}))
    _write(own_catalog, "middle", {"title": "Middle", "date": "2026-01-01", "gpus": ["mi325x"], "tuned": True,
                                   "inherits": "old", "gemm_efficiency": {"fp8": _figure("0.75")}})  # fmt: skip
    _write(own_catalog, "new", {"title": "New", "date": "2026-02-01", "gpus": ["mi355x"], "tuned": False,
                                "inherits": "middle", "stream_efficiency": _figure("0.5")})  # fmt: skip
    stack = catalog.stack("new")
    assert stack.gemm_efficiency == {"bf16": 0.8, "fp8": 0.75}
    assert stack.stream_efficiency == 0.5
    assert stack.kernel_gap_s == 5e-6
    assert (stack.title, stack.gpus, stack.inherits, stack.tuned) == ("New", ("mi355x",), "middle", False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inherits": "loop"}, "a circle: loop -> loop"),
        ({"inherits": "lop"}, "inherits: unknown software stack 'lop'; known: loop"),
        ({"kernel_gap": _figure("5")}, "kernel_gap: 5 has no unit"),
        ({"blocking_p2p": _figure("perhaps")}, "blocking_p2p: 'perhaps' is neither true nor false"),
        ({"date": "yesterday"}, "date: 'yesterday' is not a date"),
        ({"gpus": "mi300x"}, "gpus: 'mi300x' is not a list"),
        ({"tuned": "yes"}, "tuned: 'yes' is neither"),
        ({"attention_share": 3}, "attention_share: "),
        ({"sources": {"lab": "notes"}}, "sources.lab: a source is"),
        ({"name": "other"}, "name: 'other' is not the name of the file"),
    ],
)
def test_faulty_stacks_are_refused(own_catalog: Path, changes: dict[str, Any], message: str) -> None:
    _write(own_catalog, "loop", _stack() | changes)
    with pytest.raises(CatalogError, match=message):
        catalog.stack("loop")


def test_a_figure_with_a_default_may_be_left_out(own_catalog: Path) -> None:
    """Kernels over heads stream like others, a dispatch needs 64 units, unless a profile says otherwise."""
    content = _stack()
    del content["head_kernel_share"], content["dispatch_full_rate_units"]
    _write(own_catalog, "lab", content)
    _write(own_catalog, "slow", _stack() | {"name": "slow", "head_kernel_share": _figure("0.5")})
    plain = catalog.stack("lab")
    assert (plain.head_kernel_share, plain.dispatch_full_rate_units) == (1.0, 64.0)
    assert catalog.stack("slow").head_kernel_share == 0.5


def test_a_missing_stack_figure_is_named(own_catalog: Path) -> None:
    content = _stack()
    del content["stream_efficiency"]
    _write(own_catalog, "lab", content)
    with pytest.raises(CatalogError, match=r"stacks/lab.yaml: stream_efficiency: missing"):
        catalog.stack("lab")


def test_what_identifies_a_stack_is_not_inherited(own_catalog: Path) -> None:
    _write(own_catalog, "old", _stack())
    _write(own_catalog, "new", {"title": "New", "date": "2026-02-01", "gpus": ["mi355x"], "inherits": "old"})
    with pytest.raises(CatalogError, match=r"stacks/new.yaml: tuned: missing"):
        catalog.stack("new")


def test_circles_over_several_files_are_found(own_catalog: Path) -> None:
    _write(own_catalog, "a", _stack(inherits="b"))
    _write(own_catalog, "b", _stack(inherits="a"))
    with pytest.raises(CatalogError, match="a circle: a -> b -> a"):
        catalog.stack("a")


def test_the_newest_tuned_stack_is_taken(own_catalog: Path) -> None:
    _write(own_catalog, "first", _stack(date="2025-01-01"))
    _write(own_catalog, "second", _stack(date="2025-06-01"))
    _write(own_catalog, "later-untuned", _stack(date="2026-01-01", tuned=False))
    assert catalog.newest_stack("mi300x").name == "second"
    with pytest.raises(UnknownName, match="no profile covers GPU mi210"):
        catalog.newest_stack("mi210")
    with pytest.raises(UnknownName, match="unknown GPU"):
        catalog.newest_stack("mi999x")


def test_keys_given_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\nb: {c: 1, c: 2}\n", "utf-8")
    with pytest.raises(CatalogError, match=r"x.yaml: not valid YAML.*key 'c' twice"):
        read_yaml(path)
    path.write_text("- a\n", "utf-8")
    with pytest.raises(CatalogError, match=r"x.yaml: a catalog file is a mapping"):
        read_yaml(path)


# Display


def test_rows_hold_value_and_unit_apart() -> None:
    rows = {row.path: row for row in describe.rows("gpu", "mi300x")}
    assert (rows["achievable_flops.bf16"].value, rows["achievable_flops.bf16"].unit) == ("708", "TFLOP/s")
    assert (rows["facts.process"].value, rows["facts.process"].unit) == ("N5 XCD and N6 IOD", "")
    assert rows["hbm_bandwidth"].source.startswith("ROCm documentation")


def test_listing_says_what_is_special() -> None:
    headings = {heading.name: heading for heading in describe.listing()}
    assert len(headings) >= len(_REQUIRED_GPUS)
    assert "announced" in headings["mi455x"].remark
    assert headings["mi300x"].remark == "1 of 26 figures assumed"  # its host link


def test_kinds_of_a_name() -> None:
    assert describe.kinds_of("mi300x") == ("gpu",)
    with pytest.raises(UnknownName, match="one per GCD"):
        describe.kinds_of("mi250x")
    with pytest.raises(UnknownName, match="known: connectx-9"):
        describe.kinds_of("cx9")
