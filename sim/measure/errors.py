"""What can go wrong with a measurement, said in one sentence."""

from __future__ import annotations

from importlib.util import find_spec


class TorchMissing(ValueError):
    """torch, which is not a dependency of trainsim itself, is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "sim measure needs torch, which is not installed. On a GPU machine take the torch build of its ROCm "
            "or CUDA release (pytorch.org/get-started); anywhere else the extra `measure` installs one: "
            "pip install 'trainsim[measure]'"
        )


class MeasurementError(ValueError):
    """Nothing could be measured, or the folder holds another machine's measurements."""


def require_torch() -> None:
    """Raises TorchMissing unless ``import torch`` will find a package."""
    if find_spec("torch") is None:
        raise TorchMissing


def one_line(error: BaseException) -> str:
    """The sentence of ``error`` that matters: torch puts the cause last after a child's traceback, else first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]
