"""A recommender written into the scenario itself: its tables and the layers over them."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sim.scenario.fields import Number, Text, Whole, worded
from sim.workload.recommender import Recommender, SequenceEncoder
from sim.workload.tables import Table

MOST_TABLES = 10_000

Rows = Annotated[int, Whole(1, 1_000_000_000_000)]
Width = Annotated[int, Whole(1, 1_000_000)]
Widths = tuple[Width, ...]
Name = Annotated[str, Text(100)]


class InlineTable(BaseModel):
    """One embedding table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: Rows = Field(description="Rows")
    dim: Width | None = Field(default=None, description="Width of a row; default: the model's dim")
    lookups: Annotated[float, Number(1e-6, 1e6)] = Field(
        default=1.0, description="Rows that a sample looks up and sums (pooling); of a sequence: per position"
    )
    sequence: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="Looked up at every position, one vector each"
    )


class InlineEncoder(BaseModel):
    """HSTU layers over the positions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: Annotated[int, Whole(1, 10_000)] = Field(description="Layers")
    hidden: Width = Field(description="Width of a position")
    heads: Annotated[int, Whole(1, 10_000)] = Field(description="Attention heads")
    key_dim: Width = Field(description="Width of queries and keys of a head")
    value_dim: Width = Field(description="Width of values and gates of a head")
    gathered: Width = Field(description="Width that the output projection reads")
    content: Widths = Field(
        default=(), description="Inner widths of the MLP over a position's joined vectors"
    )


class InlineRecommender(BaseModel):
    """A recommender, from nothing or from a known ``base``, whose fields a given one replaces whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Name | None = Field(
        default=None, description="Recommender of the catalog that all left out here is of"
    )
    name: Name | None = Field(default=None, description="Short name; default: inline, or the base's, changed")
    title: Annotated[str, Text(200)] | None = Field(
        default=None, description="Name in words; default: the short name"
    )
    dim: Width | None = Field(default=None, description="Width of the rows of tables that give none")
    tables: dict[Name, InlineTable] | None = Field(
        default=None, description="Tables by name", min_length=1, max_length=MOST_TABLES
    )
    dense_inputs: Annotated[int, Whole(0, 1_000_000)] | None = Field(
        default=None, description="Numeric features, which enter the bottom MLP"
    )
    bottom: Widths | None = Field(default=None, description="Widths of the bottom MLP")
    interaction: Literal["cross", "dot"] | None = Field(
        default=None, description="cross: low-rank cross layers; dot: products of all pairs; default: dot"
    )
    cross_layers: Annotated[int, Whole(0, 1000)] | None = Field(default=None, description="cross: layers")
    cross_rank: Annotated[int, Whole(0, 1_000_000)] | None = Field(default=None, description="cross: rank")
    top: Widths | None = Field(default=None, description="Widths of the top MLP")
    encoder: InlineEncoder | None = Field(default=None, description="Sequence encoder instead of all these")
    source: Annotated[str, Text(500)] | None = Field(default=None, description="Where the widths come from")

    @model_validator(mode="after")
    def _is_a_model(self) -> InlineRecommender:
        self.recommender()
        return self

    def recommender(self) -> Recommender:
        """The model with every default filled in. Raises a validation error for fields that disagree."""
        given = {
            name: getattr(self, name) for name in self.model_fields_set - {"base", "dim", "tables", "encoder"}
        }
        given = {name: value for name, value in given.items() if value is not None}
        if self.encoder is not None:
            given["encoder"] = SequenceEncoder(**self.encoder.model_dump())
        if self.tables is not None:
            given["tables"] = tuple(self._table(name, table) for name, table in self.tables.items())
        model = replace(self._base, **given)
        if self.base is not None and set(given) - {"title", "source"} and self.name is None:
            own = f"{self._base.name} ({', '.join(sorted(given))} changed)"
            model = replace(model, name=own, title=self.title or own, published_parameters=None)
        _check(model)
        return model

    @property
    def _base(self) -> Recommender:
        if self.base is None:
            name = self.name or "inline"
            return Recommender(
                name=name, title=self.title or name, tables=(), source="written in the scenario"
            )
        from sim.workload.catalog import UnknownName, recommender

        try:
            return recommender(self.base)
        except UnknownName as error:
            raise worded(f"base: {error}") from None

    def _table(self, name: str, table: InlineTable) -> Table:
        dim = table.dim or self.dim
        if dim is None:
            raise worded(f"tables.{name}: give its dim, or one for all tables beside them")
        return Table(name, table.rows, dim, table.lookups, table.sequence)


def _check(model: Recommender) -> None:
    sequences = any(table.sequence for table in model.tables)
    if not model.tables:
        raise worded("tables: a recommender has at least one")
    if (model.encoder is not None) != sequences:
        raise worded("an encoder and tables with sequence: true belong together")
    if model.encoder is not None:
        return
    if bool(model.bottom) != bool(model.dense_inputs):
        raise worded("bottom and dense_inputs belong together: the bottom MLP reads the numeric features")
    if not model.top:
        raise worded("top: give the widths of the layers over the interaction")
    crossed = bool(model.cross_layers), bool(model.cross_rank)
    if crossed != ((True, True) if model.interaction == "cross" else (False, False)):
        raise worded("interaction: cross has cross_layers and cross_rank above zero, dot has neither")
    dims = {table.dim for table in model.tables} | ({model.bottom[-1]} if model.bottom else set())
    if model.interaction == "dot" and len(dims) > 1:
        raise worded(
            f"interaction: dot needs vectors of one width, not {sorted(dims)}: bottom ends in it too"
        )


def recommender_fields(model: Recommender) -> dict[str, Any]:
    """The mapping that loads to ``model``."""
    mapping = {field.name: getattr(model, field.name) for field in fields(model)}
    mapping["tables"] = {
        table.name: {key: value for key, value in asdict(table).items() if key != "name"}
        for table in model.tables
    }
    for name in ("bottom", "top"):
        mapping[name] = list(mapping[name])
    mapping["encoder"] = (
        None if model.encoder is None else {**asdict(model.encoder), "content": list(model.encoder.content)}
    )
    del mapping["published_parameters"]
    return {name: value for name, value in mapping.items() if value is not None}


KEYS = frozenset(
    {"tables", "bottom", "top", "encoder", "interaction", "cross_layers", "cross_rank", "dense_inputs"}
)


def describes_a_recommender(value: dict[Any, Any]) -> bool:
    """Whether a mapping under ``model`` is one, by its own keys or its base."""
    from sim.workload.catalog import recommender_names

    return bool(KEYS & set(value)) or value.get("base") in recommender_names()
