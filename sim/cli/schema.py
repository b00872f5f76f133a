"""``sim schema``."""

from __future__ import annotations

import sim
from sim.cli.output import print_json


def schema() -> None:
    """Print the JSON schema of scenario files, for editors."""
    print_json(sim.json_schema())
