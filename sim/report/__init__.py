"""Views of results: terminal pages and exports. Each sees ``sim.results`` only."""
