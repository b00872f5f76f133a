"""``python -m sim.scenario`` writes scenario.schema.json and the tables of docs/scenario.md anew.

To be run after a change of schema, aliases or catalogs.
"""

from __future__ import annotations

from pathlib import Path

from sim.scenario.field_table import write_page
from sim.scenario.json_schema import SCHEMA_FILE, schema_text

if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    write_page(Path(__file__).resolve().parents[2])
