"""A model written into the scenario itself: the fields of a published configuration.

Types, bounds and words are here; defaults and consistency are those of ``sim.workload.catalog.mapping``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    InstanceOf,
    Tag,
    model_validator,
)
from pydantic_core import core_schema

from sim.scenario.fields import Number, Text, Whole, worded
from sim.workload.architecture import Architecture
from sim.workload.catalog.mapping import DEFAULTS, MOST, ArchitectureError, architecture_from_mapping

Count = Annotated[int, Whole(1, MOST["layers"])]
Width = Annotated[int, Whole(1, MOST["hidden"])]
Flag = Annotated[bool, Field(strict=True)]


class InlineModel(BaseModel):
    """A dense transformer, from nothing (a Llama unless said otherwise) or from a known ``base``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Annotated[str, Text(100)] | None = Field(
        default=None, description="Model of the catalog that everything left out here is taken from"
    )
    name: Annotated[str, Text(100)] = Field(default="inline", description="Short name")
    title: Annotated[str, Text(200)] | None = Field(
        default=None, description="Name in words; default: the short name"
    )
    layers: Count | None = Field(default=None, description="Transformer blocks")
    hidden: Width | None = Field(default=None, description="Width of the residual stream")
    ffn: Width | None = Field(default=None, description="Inner width of the MLP")
    heads: Count | None = Field(default=None, description="Attention heads")
    kv_heads: Count | None = Field(default=None, description="Key/value heads; default: as many as heads")
    head_dim: Annotated[int, Whole(1, MOST["head_dim"])] | None = Field(
        default=None, description="Width of one head; default: hidden / heads"
    )
    vocab: Annotated[int, Whole(1, MOST["vocab"])] | None = Field(default=None, description="Vocabulary size")
    mlp: Literal["swiglu", "gelu"] = Field(
        default=DEFAULTS["mlp"], description="swiglu: three matrices; gelu: two"
    )
    norm: Literal["rmsnorm", "layernorm"] = Field(default=DEFAULTS["norm"], description="Normalisation")
    position: Literal["rope", "alibi", "learned", "none"] = Field(
        default=DEFAULTS["position"], description="Position information"
    )
    max_positions: Annotated[int, Whole(0, MOST["max_positions"])] = Field(
        default=DEFAULTS["max_positions"], description="Rows of the table of position: learned"
    )
    tied_embeddings: Flag = Field(
        default=DEFAULTS["tied_embeddings"], description="Output projection shares the input embedding"
    )
    qkv_bias: Flag = Field(
        default=DEFAULTS["qkv_bias"], description="Biases on the query, key and value projections"
    )
    linear_bias: Flag = Field(
        default=DEFAULTS["linear_bias"], description="Biases on every other linear layer"
    )
    qk_norm: Flag = Field(default=DEFAULTS["qk_norm"], description="Norms on queries and keys")
    causal: Flag = Field(default=DEFAULTS["causal"], description="Decoder (true) or encoder (false)")
    published_parameters: Annotated[float, Number(1, 1e16)] | None = Field(
        default=None, description="Parameter count its authors publish; must agree with the widths to 1 %"
    )
    source: Annotated[str, Text(500)] = Field(
        default=DEFAULTS["source"], description="Where the widths come from"
    )

    @model_validator(mode="after")
    def _is_a_model(self) -> InlineModel:
        model = self.architecture()
        published = model.published_parameters
        if published is not None and abs(model.parameters / published - 1) > 0.01:
            raise worded(
                f"published_parameters is {published:.4g} but these widths give {model.parameters:,}"
            )
        return self

    def architecture(self) -> Architecture:
        """The same with every default filled in. Raises a validation error for widths that disagree."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        try:
            return architecture_from_mapping(
                {name: value for name, value in given.items() if value is not None}
            )
        except ArchitectureError as error:
            raise worded(str(error)) from None


def inline_fields(architecture: Architecture) -> dict[str, Any]:
    """The mapping that loads to ``architecture``."""
    mapping = {field.name: getattr(architecture, field.name) for field in fields(architecture)}
    if mapping["published_parameters"] is None:
        del mapping["published_parameters"]
    if not mapping["max_positions"]:
        del mapping["max_positions"]
    return mapping


UNION_TAGS = frozenset({"<name>", "<inline>", "<built>"})
"""Steps that the choice below adds to the location of an error."""


def _kind(value: object) -> str | None:
    if isinstance(value, (Architecture, InlineModel)):
        return "<built>"
    return "<inline>" if isinstance(value, dict) else "<name>"


_Union = Annotated[
    Annotated[str, Text(200), Tag("<name>")]
    | Annotated[InlineModel, Tag("<inline>")]
    | Annotated[InstanceOf[Architecture], Tag("<built>")],
    Discriminator(_kind),
]


class ModelChoice:
    """Marks a field that takes a catalog name or an inline mapping; the latter becomes an Architecture."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            lambda value: value.architecture() if isinstance(value, InlineModel) else value,
            handler.generate_schema(_Union),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: inline_fields(value) if isinstance(value, Architecture) else value
            ),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "object"]}
