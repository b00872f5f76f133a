"""``python -m sim.cli``, for machines without the console script."""

from __future__ import annotations

from sim.cli.entry import main

main()
