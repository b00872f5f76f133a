"""The one device that a process measures: a GPU through ``torch.cuda`` (ROCm or CUDA), or the CPU for trying the kit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sim.measure.errors import MeasurementError

if TYPE_CHECKING:
    import torch

KINDS = ("cpu", "cuda")

# Operands rotate through at least this much memory, so that no call finds its own in a cache. 512 MiB is what
# hipblaslt-bench is usually given on machines with a 256 MB last-level cache.
ROTATING_BYTES = {"cuda": 512 * 2**20, "cpu": 16 * 2**20}

LARGEST_CPU_FLOPS = 2e9  # the CPU is there to try the kit, not to be measured for hours


@dataclass(frozen=True)
class Device:
    """``kind`` is cpu or cuda (torch's name on ROCm too), ``index`` that of the GPU."""

    kind: str
    index: int = 0

    @property
    def handle(self) -> torch.device:
        import torch

        return torch.device(self.kind, self.index) if self.on_gpu else torch.device("cpu")

    @property
    def on_gpu(self) -> bool:
        return self.kind == "cuda"

    @cached_property
    def properties(self) -> Any:
        import torch

        return torch.cuda.get_device_properties(self.index)

    @property
    def name(self) -> str:
        return str(self.properties.name) if self.on_gpu else "cpu"

    @property
    def architecture(self) -> str:
        """gfx942, sm_90, … or the CPU's."""
        import platform

        if not self.on_gpu:
            return platform.machine()
        gcn = str(getattr(self.properties, "gcnArchName", "")).split(":")[0]
        return gcn or f"sm_{self.properties.major}{self.properties.minor}"

    @property
    def bus_id(self) -> str | None:
        """PCI address such as 0000:05:00.0; None where torch does not tell."""
        if not self.on_gpu or not hasattr(self.properties, "pci_bus_id"):
            return None
        p = self.properties
        return f"{p.pci_domain_id:04x}:{p.pci_bus_id:02x}:{p.pci_device_id:02x}.0"

    @property
    def free_bytes(self) -> int:
        import torch

        if self.on_gpu:
            return int(torch.cuda.mem_get_info(self.index)[0])
        pages: int = os.sysconf("SC_AVPHYS_PAGES")
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def rotating_bytes(self) -> int:
        l2 = int(getattr(self.properties, "L2_cache_size", 0)) if self.on_gpu else 0
        return max(ROTATING_BYTES[self.kind], 2 * l2)

    @property
    def fp8(self) -> torch.dtype:
        """e4m3 as the matrix units read it: gfx94x knows only the fnuz encoding."""
        import torch

        return torch.float8_e4m3fnuz if self.architecture.startswith("gfx94") else torch.float8_e4m3fn

    def claim(self) -> None:
        """Makes this GPU the one that torch allocates on and launches to."""
        import torch

        if self.on_gpu:
            torch.cuda.set_device(self.index)

    def synchronize(self) -> None:
        import torch

        if self.on_gpu:
            torch.cuda.synchronize(self.index)


def choose_kind(asked: str | None) -> str:
    """The device asked for, if it is there; without a wish the GPU, never the CPU unasked.

    Raises MeasurementError.
    """
    import torch

    if asked is not None and asked not in KINDS:
        raise MeasurementError(
            f"--device {asked}: no such device; known: {', '.join(KINDS)} (cuda is ROCm too)"
        )
    if asked == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise MeasurementError(
            f"torch {torch.__version__} sees no GPU; is it the build for this machine's ROCm or CUDA? "
            "`--device cpu` tries the kit on the CPU"
        )
    return "cuda"
