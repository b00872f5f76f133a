"""Rows of the embedding, where a configuration names its tokenizer only."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sim.interop.configs.draft import Draft
from sim.interop.configs.settings import Settings
from sim.workload.catalog import architecture

_FILE = Path(__file__).with_name("tokenizers.yaml")
NULL_TOKENIZERS = frozenset({"NullTokenizer"})


@cache
def _tokenizers() -> tuple[dict[str, Any], ...]:
    return tuple(yaml.load(_FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def rows_of(tokenizer: str) -> int | None:
    """Rows of the embedding of the models trained with ``tokenizer``; None for an unknown one."""
    for entry in _tokenizers():
        if fnmatchcase(tokenizer, entry["match"]):
            return int(entry["vocab"]) if "vocab" in entry else architecture(entry["model"]).vocab
    return None


def vocabulary(settings: Settings, draft: Draft) -> int | None:
    """From ``vocab_size`` or the tokenizer; None after refusing a configuration that says neither."""
    kind, model = settings.text("tokenizer_type"), settings.text("tokenizer_model")
    asked = draft.override("model.vocab")
    if asked is not None and asked.strip().isdecimal() and len(asked) < 12:
        return int(asked)
    if (given := settings.whole("vocab_size", least=1)) is not None:
        return given + 1 if kind in NULL_TOKENIZERS else given  # it adds an end-of-document token
    for name in (model, kind):
        rows = rows_of(name) if name is not None else None
        if rows is not None:
            draft.warn(
                f"vocabulary: {rows:,} taken for tokenizer {name}, the rows of its models (the tokenizer alone may "
                "know fewer)",
                settings.at("tokenizer_model" if name == model else "tokenizer_type"),
            )
            return rows
    what = f"of tokenizer {model or kind} is not known here" if model or kind else "is not given"
    draft.refuse(
        f"the size of the vocabulary {what}: give it with --set model.vocab=N",
        "vocab_size",
        settings.at("tokenizer_model" if model else "vocab_size"),
    )
    return None
