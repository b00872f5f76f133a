"""What is wrong with a question to ``sim explain``."""

from __future__ import annotations


class ExplainError(ValueError):
    """A measurement, a note or a log that cannot be explained; the message says what would be right."""
