"""Shapes of networks: where links run, and which of them a route takes, all by arithmetic."""
