"""A GPU file as a ``Gpu``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmodels.gpu import Gpu

if TYPE_CHECKING:
    from hwmodels.catalog.record import Record

STATUSES = ("shipping", "announced")


def build_gpu(record: Record) -> Gpu:
    """Raises ``CatalogError`` for missing or unknown keys and for rates that contradict one another."""
    gpu = Gpu(
        name=record.text("name"),
        title=record.text("title"),
        vendor=record.text("vendor"),
        architecture=record.text("architecture"),
        unit=record.text("unit"),
        status=read_status(record),
        compute_units=record.count("compute_units"),
        dies=record.count("dies"),
        peak_clock_Hz=record.quantity("peak_clock", "frequency"),
        peak_flops=record.quantities("peak_flops", "flops"),
        achievable_flops=record.quantities("achievable_flops", "flops"),
        sustained_clock_Hz=_sustained_clock(record),
        power_cap_W=record.quantity("power_cap", "power"),
        hbm_bytes=record.quantity("hbm", "bytes"),
        hbm_bandwidth_Bps=record.quantity("hbm_bandwidth", "bandwidth"),
        host_link_Bps=record.quantity("host_link", "bandwidth") if "host_link" in record else 0.0,
        figures=record.figures,
    )
    record.facts()
    record.done()
    for number_format, rate in gpu.achievable_flops.items():
        if not 0 < rate <= gpu.peak_flops.get(number_format, 0.0):
            raise record.error(f"achievable_flops.{number_format}", "not above 0 and at most the peak")
    return gpu


def read_status(record: Record) -> str:
    """``shipping`` or ``announced``."""
    status = record.text("status")
    if status not in STATUSES:
        raise record.error("status", f"{status!r} is neither {' nor '.join(STATUSES)}")
    return status


def _sustained_clock(record: Record) -> dict[str, float]:
    return record.quantities("sustained_clock", "frequency") if "sustained_clock" in record else {}
