"""A measured figure as people give it: ``1.43 s``, ``9600 tokens/s/GPU``, ``296 TFLOP/s``, ``24.3 % MFU``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hwmodels.units import UnitError, parse
from sim.diagnosis.errors import ExplainError
from sim.results import StepResult

_RATE = re.compile(r"\s*([\d.,]{1,30})\s*(%?)\s*([A-Za-z/ ]{1,30}?)\s*")
_KINDS = {
    "tokens/s/gpu": "tokens/s/GPU", "tok/s/gpu": "tokens/s/GPU", "tokens/s/device": "tokens/s/GPU",
    "tokens/s": "tokens/s", "tok/s": "tokens/s",
    "samples/s": "samples/s", "sequences/s": "samples/s",
    "tflop/s": "TFLOP/s", "tflops": "TFLOP/s", "tflop/s/gpu": "TFLOP/s", "tflops/gpu": "TFLOP/s",
    "mfu": "MFU",
}  # fmt: skip
_DUE = "a time (1.43 s), tokens/s/GPU, tokens/s, samples/s, TFLOP/s or % MFU is due here"


@dataclass(frozen=True)
class Measurement:
    """``value`` in the unit of ``kind``: seconds, tokens/s/GPU, tokens/s, samples/s, TFLOP/s per GPU, or MFU (1 = 100 %)."""

    kind: str
    value: float
    text: str

    @staticmethod
    def read(text: str, option: str = "--measured") -> Measurement:
        """Raises ``ExplainError``, which names ``option``, for what is no time and no rate."""
        shown = f"{option} {text if len(text) <= 40 else text[:40] + '…'!r}"
        try:
            return Measurement("seconds", _positive(parse(text, "time"), shown), text.strip())
        except UnitError:
            pass
        match = _RATE.fullmatch(text)
        kind = None if match is None else _KINDS.get(match[3].replace(" ", "").lower())
        if match is None or kind is None or (match[2] and kind != "MFU"):
            raise ExplainError(f"{shown}: {_DUE}")
        try:
            value = float(match[1].replace(",", ""))
        except ValueError:
            raise ExplainError(f"{shown}: {_DUE}") from None
        return Measurement(kind, _positive(value / 100.0 if match[2] else value, shown), text.strip())

    def step_time_s(self, predicted: StepResult, global_batch: int) -> float:
        """Seconds per step that the figure amounts to, counted as ``predicted`` counts."""
        if self.kind == "seconds":
            return self.value
        usual = {
            "tokens/s/GPU": predicted.tokens_per_s_per_gpu,
            "tokens/s": predicted.tokens_per_s,
            "samples/s": global_batch / predicted.step_time_s,
            "TFLOP/s": predicted.tflops_per_gpu,
            "MFU": predicted.mfu,
        }[self.kind]
        return predicted.step_time_s * usual / self.value


def _positive(value: float, shown: str) -> float:
    if not value > 0.0:
        raise ExplainError(f"{shown}: a figure above 0 is due here")
    return value
