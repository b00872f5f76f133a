"""``provenance.json``: on which machine and how the logs beside it came about. Host, user and path stay out of it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sim import __version__
from sim.measure.device import Device
from sim.measure.errors import MeasurementError
from sim.measure.telemetry import Reading, ask, output, tool_of

FILE = "provenance.json"


def describe_machine(device: Device) -> dict[str, Any]:
    """Device, driver and software; None for what cannot be told."""
    import torch

    facts: dict[str, Any] = {
        "device": device.name,
        "architecture": device.architecture,
        "driver": _driver(),
        "torch": torch.__version__,
        "rocm": torch.version.hip,
        "cuda": torch.version.cuda,
        "system": platform.system(),
        "python": platform.python_version(),
        "fp32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    if device.on_gpu:
        properties = device.properties
        facts |= {
            "compute_units": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_cache_bytes": getattr(properties, "L2_cache_size", None),
            "collective_library": _collective_library(),
            "power_cap_W": _power_cap_W(device),
        }
    else:
        facts["cpus"] = os.cpu_count()
    return facts


def state(device: Device) -> dict[str, float | None]:
    """Clock and power of this moment, where a tool tells."""
    tool, bus_id = (tool_of(device), device.bus_id) if device.on_gpu else (None, None)
    reading = (ask(tool, bus_id) if tool and bus_id else None) or Reading(None, None)
    return {"clock_MHz": reading.clock_MHz, "power_W": reading.power_W}


def record(folder: Path, machine: dict[str, Any], measurements: dict[str, dict[str, Any]]) -> Path:
    """Adds ``measurements`` (by kind; a repeated one replaces its elder) to the file in ``folder``."""
    path = folder / FILE
    content = _read(path) or {"schema": 1, "machine": machine, "measurements": {}}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for kind, facts in measurements.items():
        content["measurements"][kind] = {"date": now, "trainsim": __version__, **facts}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def refuse_another_machine(folder: Path, machine: dict[str, Any]) -> None:
    """Raises MeasurementError when the logs in ``folder`` came from another machine or software."""
    content = _read(folder / FILE)
    if content is None:
        return
    before = content["machine"]
    changed = [key for key in sorted({*before, *machine}) if before.get(key) != machine.get(key)]
    if changed:
        said = "; ".join(f"{key} was {before.get(key)}, is {machine.get(key)}" for key in changed)
        raise MeasurementError(
            f"{folder} holds measurements of another machine ({said}); choose another folder"
        )


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise MeasurementError(f"{path}: not readable ({error}); move it away") from error
    if not isinstance(content, dict) or not {"machine", "measurements"} <= content.keys():
        raise MeasurementError(f"{path}: not written by sim measure; move it away")
    return content


def _collective_library() -> str | None:
    """Version of RCCL or NCCL; a build may lack it."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_nccl_available()):
        return None
    return ".".join(str(part) for part in torch.cuda.nccl.version())


def _driver() -> str | None:
    """Of the GPU; both kernels' modules are asked, since only one is loaded."""
    module = Path("/sys/module/amdgpu/version")
    if module.exists():
        return module.read_text("utf-8").strip()
    text = output(("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"))
    return _first_line((text or "").splitlines())


def _power_cap_W(device: Device) -> float | None:
    """AMD's from the kernel (microwatts), NVIDIA's from its tool."""
    if device.bus_id is None:
        return None
    for cap in Path("/sys/bus/pci/devices", device.bus_id).glob("hwmon/hwmon*/power1_cap"):
        return int(cap.read_text("ascii")) / 1e6
    query = ("nvidia-smi", "--query-gpu=power.limit", "--format=csv,noheader,nounits", "-i", device.bus_id)
    line = _first_line((output(query) or "").splitlines())
    try:
        return float(line or "")
    except ValueError:
        return None


def _first_line(lines: Iterable[str]) -> str | None:
    return next((line.strip() for line in lines if line.strip()), None)
