"""A model written into the scenario itself: the fields of a published configuration.

Types, bounds and words are here; defaults and consistency are those of ``sim.workload.catalog.mapping``.
"""

from __future__ import annotations

from dataclasses import asdict, fields
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
from sim.scenario.inline_recommender import InlineRecommender, describes_a_recommender, recommender_fields
from sim.workload.architecture import Architecture
from sim.workload.catalog.mapping import DEFAULTS, MOST, ArchitectureError, architecture_from_mapping
from sim.workload.recommender import Recommender

Count = Annotated[int, Whole(1, MOST["layers"])]
Width = Annotated[int, Whole(1, MOST["hidden"])]
Flag = Annotated[bool, Field(strict=True)]


class InlineExperts(BaseModel):
    """Experts in place of the MLP. With a ``base`` that has some, what is left out is taken from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: Count | None = Field(default=None, description="Routed experts of a layer")
    top_k: Count | None = Field(default=None, description="Experts that each token visits")
    ffn: Width | None = Field(default=None, description="Inner width of one routed expert")
    shared_ffn: Annotated[int, Whole(0, MOST["ffn"])] | None = Field(
        default=None, description="Summed inner width of the experts that every token visits; default: 0"
    )
    dense_layers: Annotated[int, Whole(0, MOST["layers"])] | None = Field(
        default=None, description="First layers that keep a dense MLP; default: 0"
    )
    every: Count | None = Field(
        default=None, description="Of the layers after those, every how many-th is routed; default: 1"
    )
    groups: Count | None = Field(default=None, description="Groups that the router chooses among; default: 1")
    group_limit: Count | None = Field(default=None, description="Groups that one token may use; default: 1")
    router_bias: Flag | None = Field(default=None, description="One bias per expert; default: false")
    shared_gate: Flag | None = Field(
        default=None, description="Learned scale of the shared experts; default: false"
    )


class InlineLatentAttention(BaseModel):
    """Latent attention (MLA). With a ``base`` that has it, what is left out is taken from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query_rank: Annotated[int, Whole(0, MOST["hidden"])] | None = Field(
        default=None, description="Width of the query latent; 0: queries come straight from the hidden state"
    )
    kv_rank: Width | None = Field(default=None, description="Width of the latent of keys and values")
    rope_dim: Width | None = Field(default=None, description="Rotated part of a key, one for all heads")
    plain_dim: Width | None = Field(default=None, description="Other part of a key")
    value_dim: Width | None = Field(default=None, description="Width of one head's values")


class InlineModel(BaseModel):
    """A transformer, from nothing (a Llama unless said otherwise) or from a known ``base``."""

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
    experts: InlineExperts | None = Field(default=None, description="Routed experts; default: none")
    latent: InlineLatentAttention | None = Field(default=None, description="Latent attention; default: none")
    window: Annotated[int, Whole(0, MOST["window"])] = Field(
        default=0, description="Tokens before it that each one attends to; 0: all"
    )
    full_every: Annotated[int, Whole(0, MOST["full_every"])] = Field(
        default=0, description="With a window: every how many-th layer attends to all; 0: none"
    )
    sinks: Flag = Field(default=False, description="One learned attention sink per head")
    mtp_layers: Annotated[int, Whole(0, MOST["mtp_layers"])] = Field(
        default=0, description="Layers that predict further tokens"
    )
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
        given = {name: _plain(getattr(self, name)) for name in sorted(self.model_fields_set)}
        try:
            return architecture_from_mapping(
                {name: value for name, value in given.items() if value is not None}
            )
        except ArchitectureError as error:
            raise worded(str(error)) from None


def inline_fields(architecture: Architecture) -> dict[str, Any]:
    """The mapping that loads to ``architecture``."""
    mapping = {field.name: getattr(architecture, field.name) for field in fields(architecture)}
    for part in ("experts", "latent"):
        if mapping[part] is None:
            del mapping[part]
        else:
            mapping[part] = asdict(mapping[part])
    if mapping["published_parameters"] is None:
        del mapping["published_parameters"]
    if not mapping["max_positions"]:
        del mapping["max_positions"]
    return mapping


def _plain(value: object) -> object:
    """A nested mapping with what was given, anything else as it is."""
    if isinstance(value, InlineExperts | InlineLatentAttention):
        given = {name: getattr(value, name) for name in sorted(value.model_fields_set)}
        return {name: field for name, field in given.items() if field is not None}
    return value


UNION_TAGS = frozenset({"<name>", "<inline>", "<recommender>", "<built>", "<built recommender>"})
"""Steps that the choice below adds to the location of an error."""


def _kind(value: object) -> str | None:
    if isinstance(value, (Architecture, InlineModel)):
        return "<built>"
    if isinstance(value, Recommender):
        return "<built recommender>"
    if isinstance(value, dict):
        return "<recommender>" if describes_a_recommender(value) else "<inline>"
    return "<name>"


_Union = Annotated[
    Annotated[str, Text(200), Tag("<name>")]
    | Annotated[InlineModel, Tag("<inline>")]
    | Annotated[InlineRecommender, Tag("<recommender>")]
    | Annotated[InstanceOf[Architecture], Tag("<built>")]
    | Annotated[InstanceOf[Recommender], Tag("<built recommender>")],
    Discriminator(_kind),
]


def _built(value: Any) -> Any:
    """A mapping as the model that it describes."""
    if isinstance(value, InlineModel):
        return value.architecture()
    return value.recommender() if isinstance(value, InlineRecommender) else value


def _written(value: Any) -> Any:
    """A model as the mapping that loads to it."""
    if isinstance(value, Architecture):
        return inline_fields(value)
    return recommender_fields(value) if isinstance(value, Recommender) else value


class ModelChoice:
    """Marks a field that takes a catalog name or an inline mapping; the latter becomes the model it describes."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            _built,
            handler.generate_schema(_Union),
            serialization=core_schema.plain_serializer_function_ser_schema(_written),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "object"]}
