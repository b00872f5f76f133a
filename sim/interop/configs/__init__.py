"""Configurations of other tools: scenarios in, and Megatron arguments out."""

from __future__ import annotations

from sim.interop.configs.exporter import MegatronScript, NotExportable, export_megatron
from sim.interop.configs.importer import KINDS, ImportedScenario, import_scenario

__all__ = [
    "KINDS",
    "ImportedScenario",
    "MegatronScript",
    "NotExportable",
    "export_megatron",
    "import_scenario",
]
