"""Number formats of benchmark tools in the names of the catalog."""

from __future__ import annotations

_NAMES = {
    "f32": "fp32", "f32_r": "fp32", "float": "fp32", "float32": "fp32", "fp32": "fp32",
    "f16": "fp16", "f16_r": "fp16", "half": "fp16", "float16": "fp16", "fp16": "fp16",
    "bf16": "bf16", "bf16_r": "bf16", "bfloat16": "bf16",
    "f8": "fp8", "f8_r": "fp8", "f8_fnuz_r": "fp8", "bf8_r": "fp8", "bf8_fnuz_r": "fp8", "fp8": "fp8", "fp8_r": "fp8",
    "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2": "fp8", "float8_e5m2fnuz": "fp8",
    "f64": "fp64", "f64_r": "fp64", "double": "fp64", "i8": "int8", "i8_r": "int8",
}  # fmt: skip


def number_format(word: str) -> str:
    """``f16_r``, ``torch.float16`` or ``half`` as ``fp16``; an unknown word stays as it is."""
    key = word.strip().lower().removeprefix("torch.")
    return _NAMES.get(key, key)
