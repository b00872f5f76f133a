"""``python -m sim.scenario`` writes scenario.schema.json anew, after a change of schema or catalogs."""

from __future__ import annotations

from sim.scenario.json_schema import SCHEMA_FILE, schema_text

if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
