"""The scenario: one question, completely described. Immutable; SI floats after loading.

Keys of a file are the field names below, or the ``alias`` where the attribute carries a unit
(``power_cap: 600 W`` becomes ``power_cap_W``). Descriptions and units feed the JSON schema and docs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sim.axes import AXES, whole_order
from sim.scenario.embedding_spec import EmbeddingSpec, LengthSpec, TableShardingSpec
from sim.scenario.fields import (
    AxisOrder,
    LayerChoice,
    Number,
    Quantity,
    StageLayers,
    Text,
    Whole,
    worded,
    wrong,
)
from sim.scenario.inline_model import ModelChoice
from sim.scenario.section import Section
from sim.scenario.variability import VariabilitySpec
from sim.workload.architecture import Architecture
from sim.workload.recommender import Recommender

PRECISIONS = ("bf16", "fp16", "fp32", "fp8", "mxfp8", "mxfp4", "nvfp4")
Precision = Literal["bf16", "fp16", "fp32", "fp8", "mxfp8", "mxfp4", "nvfp4"]

Degree = Annotated[int, Whole(1, 65_536)]
Name = Annotated[str, Text(100)]


class GpuOverride(Section):
    """Changes to the catalog GPU: what if it had more of something."""

    hbm_bytes: Annotated[float, Quantity("bytes", "1 GB", "100 TB")] | None = Field(
        default=None, alias="hbm", description="HBM capacity of one GPU", json_schema_extra={"unit": "bytes"}
    )
    hbm_bandwidth_Bps: Annotated[float, Quantity("bandwidth", "1 GB/s", "1000 TB/s")] | None = Field(
        default=None,
        alias="hbm_bandwidth",
        description="Peak HBM bandwidth",
        json_schema_extra={"unit": "bytes/s"},
    )
    compute_units: Annotated[int, Whole(1, 100_000)] | None = Field(
        default=None, description="Compute units (AMD) or streaming multiprocessors (NVIDIA)"
    )
    peak_clock_Hz: Annotated[float, Quantity("frequency", "1 MHz", "100 GHz")] | None = Field(
        default=None, alias="peak_clock", description="Highest engine clock", json_schema_extra={"unit": "Hz"}
    )
    host_link_Bps: Annotated[float, Quantity("bandwidth", "1 MB/s", "100 TB/s")] | None = Field(
        default=None,
        alias="host_link",
        description="Usable rate per direction between HBM and host memory",
        json_schema_extra={"unit": "bytes/s"},
    )


class OffloadSpec(Section):
    """What waits in host memory instead of HBM."""

    activation_layers: Annotated[int, Whole(0, 10_000)] = Field(
        default=0,
        description="First layers whose activations are copied out in the forward and back in the backward",
    )
    optimizer: Literal["none", "streamed", "host"] = Field(
        default="none",
        description="streamed: states pass through the GPU, which updates them; host: gradients go down, the host "
        "updates, parameters come up (ZeRO-Offload)",
    )
    host_update_bandwidth_Bps: Annotated[float, Quantity("bandwidth", "1 MB/s", "100 TB/s")] | None = Field(
        default=None,
        alias="host_update_bandwidth",
        description="optimizer: host: host memory traffic per second that the update of one GPU's shard reaches",
        json_schema_extra={"unit": "bytes/s"},
    )


class ScaleUpOverride(Section):
    """Changes to the links inside one scale-up domain."""

    kind: Literal["mesh", "switch"] | None = Field(
        default=None,
        description="mesh: one link per pair of GPUs; switch: any pair at full rate. Needs a bandwidth beside it",
    )
    domain_gpus: Annotated[int, Whole(1, 65_536)] | None = Field(
        default=None, description="GPUs that reach each other over these links"
    )
    link_bandwidth_Bps: Annotated[float, Quantity("bandwidth", "1 MB/s", "1000 TB/s")] | None = Field(
        default=None,
        alias="link_bandwidth",
        description="Data-sheet rate per direction of a link (mesh) or GPU port (switch); the usable share stays",
        json_schema_extra={"unit": "bytes/s"},
    )
    usable_bandwidth_Bps: Annotated[float, Quantity("bandwidth", "1 MB/s", "1000 TB/s")] | None = Field(
        default=None,
        alias="usable_bandwidth",
        description="Rate that collectives reach per link (mesh) or GPU (switch), per direction",
        json_schema_extra={"unit": "bytes/s"},
    )
    latency_s: Annotated[float, Quantity("time", "1 ns", "1 s")] | None = Field(
        default=None,
        alias="latency",
        description="Floor of a small collective over the whole domain",
        json_schema_extra={"unit": "s"},
    )


class FabricSpec(Section):
    """The network between nodes and how flows are routed over it."""

    kind: Literal["non-blocking", "rail-only", "rail-clos", "clos", "dragonfly", "torus"] = Field(
        default="non-blocking",
        description="non-blocking: one ideal switch; rail-only: a network per rail; rail-clos: leaves per rail "
        "under shared spines; clos: leaves take whole nodes; dragonfly; torus of nodes",
    )
    tiers: Annotated[int, Whole(1, 3)] | None = Field(
        default=None, description="Switch tiers of a Clos; default: the fewest that hold the cluster"
    )
    oversubscription: tuple[Annotated[float, Number(1, 1000)], ...] | None = Field(
        default=None,
        description="Capacity into a switch from below over capacity upwards, by tier of links from the nodes "
        "up; default: none",
        max_length=3,
    )
    radix: Annotated[int, Whole(2, 4096)] | None = Field(
        default=None, description="Ports of a switch at the NIC's rate; default: those of a 51.2 Tbps switch"
    )
    dims: tuple[Annotated[int, Whole(1, 100_000)], ...] | None = Field(
        default=None, description="torus: nodes along each dimension", max_length=6
    )
    group_switches: Annotated[int, Whole(1, 10_000)] | None = Field(
        default=None, description="dragonfly: switches of a group; default: the balanced split"
    )
    routing: Literal["spray", "adaptive", "ecmp"] = Field(
        default="spray",
        description="spray: packets over all equal paths (also what per-packet adaptive networks do); adaptive: "
        "each flow takes the least loaded path; ecmp: a hash picks one path, and flows collide (seed moves it)",
    )
    queue_pairs: Annotated[int, Whole(1, 64)] = Field(
        default=1, description="ecmp: queue pairs of a flow, hashed apart"
    )
    pxn: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="Cross rails over the scale-up links, not over the network"
    )


class BackgroundSpec(Section):
    """What other jobs take of the links they share with this one, as fractions of capacity."""

    nic_leaf: Annotated[float, Number(0, 1, below=True)] = Field(
        default=0.0, description="Links between NICs and their first switch"
    )
    leaf_spine: Annotated[float, Number(0, 1, below=True)] = Field(
        default=0.0, description="Clos: links between leaves and spines"
    )
    spine_core: Annotated[float, Number(0, 1, below=True)] = Field(
        default=0.0, description="Clos of three tiers: links between spines and cores"
    )
    dragonfly_local: Annotated[float, Number(0, 1, below=True)] = Field(
        default=0.0, description="dragonfly: links inside groups"
    )
    dragonfly_global: Annotated[float, Number(0, 1, below=True)] = Field(
        default=0.0, description="dragonfly: links between groups"
    )
    torus: Annotated[float, Number(0, 1, below=True)] = Field(default=0.0, description="torus: cables")

    @property
    def by_tier(self) -> dict[str, float]:
        """Fractions above zero by the fabric's names of link tiers."""
        values = {name.replace("_", "-"): getattr(self, name) for name in type(self).model_fields}
        return {tier: fraction for tier, fraction in values.items() if fraction}


Share = Annotated[float, Number(1e-6, 1)]


class DegradedSpec(Section):
    """What runs below par, as a share of its normal speed: 1 is healthy. All wait for the slowest, so give its share."""

    compute: Share = Field(
        default=1.0, description="Matrix products and attention of the slowest GPU: low clock, throttling"
    )
    gemm: Share = Field(default=1.0, description="Matrix products: fallback or untuned kernels")
    attention: Share = Field(default=1.0, description="Fused attention: old or untuned kernels")
    memory: Share = Field(default=1.0, description="Kernels that memory bandwidth limits: unfused or untuned")
    scale_up: Share = Field(default=1.0, description="Bandwidth inside a scale-up domain: its slowest link")
    scale_out: Share = Field(default=1.0, description="Bandwidth between domains: the slowest NIC or path")
    kernel_gap_s: Annotated[float, Quantity("time", "1 ns", "1 s")] | None = Field(
        default=None,
        alias="kernel_gap",
        description="Gap between dependent kernels instead of the stack's, where the host is slow",
        json_schema_extra={"unit": "s"},
    )
    step_overhead_s: Annotated[float, Quantity("time", "1 ns", "1 hour")] | None = Field(
        default=None,
        alias="step_overhead",
        description="Time that every step waits for something else than its own work",
        json_schema_extra={"unit": "s"},
    )


class ClusterSpec(Section):
    """The machines."""

    node: Name = Field(
        description="Node of the catalog: GPUs, scale-up links, NICs", json_schema_extra={"names": "node"}
    )
    nodes: Annotated[int, Whole(1, 1_000_000)] = Field(description="Number of nodes")
    gpus: Annotated[int, Whole(1, 100_000_000)] | None = Field(
        default=None, description="GPUs in use altogether, where fewer than the nodes have; default: all"
    )
    stack: Annotated[str, Text(1000)] | None = Field(
        default=None,
        description="Dated software-efficiency profile: a name of the catalog, or the path of a YAML file "
        "relative to this one; default: the newest for this GPU",
        json_schema_extra={"names": "stack"},
    )
    power_cap_W: Annotated[float, Quantity("power", "1 W", "10 kW")] | None = Field(
        default=None,
        alias="power_cap",
        description="Power cap of one GPU, at most its own; default: its own",
        json_schema_extra={"unit": "W"},
    )
    gpu: GpuOverride | None = Field(default=None, description="Changes to the node's GPU")
    scale_up: ScaleUpOverride | None = Field(default=None, description="Changes to the node's scale-up links")
    nic: Name | None = Field(
        default=None,
        description="NIC of the catalog instead of the node's own",
        json_schema_extra={"names": "nic"},
    )
    nics: Annotated[int, Whole(1, 1024)] | None = Field(
        default=None, description="NICs per node instead of the node's own number"
    )
    nic_bandwidth_Bps: Annotated[float, Quantity("bandwidth", "1 Mbps", "1000 TB/s")] | None = Field(
        default=None,
        alias="nic_bandwidth",
        description="Line rate of one NIC per direction instead of its own; the usable share stays",
        json_schema_extra={"unit": "bytes/s"},
    )
    fabric: FabricSpec = Field(default=FabricSpec(), description="Network between nodes")
    placement: Literal["packed", "scattered"] = Field(
        default="packed",
        description="Where on the network the job's nodes are: packed: in the order of its switches; scattered: anywhere "
        "(seed moves it)",
    )
    background_load: BackgroundSpec = Field(
        default=BackgroundSpec(), description="What other jobs take of shared links"
    )
    degraded: DegradedSpec | None = Field(
        default=None, description="Machine or software below par; default: all healthy"
    )


class RecomputeSpec(Section):
    """What is computed again in the backward pass: ``none``, ``selective``, ``operator``, ``full`` or
    ``{layers: 21}``, ``{layers: [0, 1, 5]}``, or ``{modules: [core_attn, moe_act]}``."""

    kind: Literal["none", "selective", "operator", "full"] = Field(
        default="none",
        description="selective: the attention core, or modules; operator: every second matrix product and all "
        "element-wise kernels (TorchTitan's selective mode)",
    )
    layers: Annotated[int | tuple[int, ...], LayerChoice(Whole(1, 10_000), Whole(0, 9_999))] | None = Field(
        default=None,
        description="Fully recomputed layers per pipeline stage, virtual stages each (of the model without a pipeline); "
        "or a list of ids in model order from 0, those that predict further tokens after the others; default: all "
        "others",
    )

    modules: tuple[Literal["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act"], ...] = Field(
        default=("core_attn",),
        description="selective: which parts of every layer, in Megatron-LM's words; mlp: of dense layers; moe: the whole "
        "routed block, its exchanges too",
        min_length=1,
        max_length=6,
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str) and value in {"none", "selective", "operator", "full"}:
            return {"kind": value}
        if isinstance(value, dict):
            if "modules" in value and "layers" not in value:
                return {"kind": "selective", **value}
            return {"kind": "full", **value} if "layers" in value else value
        if isinstance(value, cls):
            return value
        raise wrong("none, selective, operator, full or a mapping such as {layers: 21}")

    @model_validator(mode="after")
    def _layers_of_full(self) -> RecomputeSpec:
        if self.layers is not None and self.kind != "full":
            raise worded("layers belongs to full recompute: write {layers: N} or {layers: [0, 1, 5]}")
        if self.modules != ("core_attn",) and self.kind != "selective":
            raise worded("modules belong to selective recompute: write {modules: [core_attn, ...]}")
        if len(set(self.modules)) != len(self.modules):
            raise worded("modules names each part once")
        return self


class LoraSpec(Section):
    """Low-rank adapters over a frozen base model."""

    rank: Annotated[int, Whole(1, 65_536)] = Field(description="Rank of the adapters")
    targets: tuple[Literal["qkv", "proj"], ...] = Field(
        default=("qkv", "proj"), description="Linear layers that carry adapters", min_length=1, max_length=2
    )

    @model_validator(mode="after")
    def _distinct_targets(self) -> LoraSpec:
        if len(set(self.targets)) != len(self.targets):
            raise worded("targets names each layer once")
        return self


class MoeSpec(Section):
    """How tokens reach their experts."""

    balance_factor: Annotated[float, Number(1, 1000)] = Field(
        default=1.0,
        description="Tokens of the most loaded rank over the mean: 1 is perfect balance, what a router does by "
        "itself lies above",
    )
    grouped_gemm: Literal["pooled", "loop", "legacy"] = Field(
        default="pooled",
        description="pooled: one kernel for all experts of a rank; loop: one after the other; legacy: that, and "
        "rows are weighted by unfused kernels, which keep more (Megatron's moe-use-legacy-grouped-gemm)",
    )
    dispatch: Literal["plain", "deduplicated", "fused"] = Field(
        default="plain",
        description="plain: all-to-all of one copy per chosen expert; deduplicated: one copy per rank, and one "
        "per node over the network (DeepEP, MORI); fused: that, inside the experts' matrix products",
    )
    capacity_factor: Annotated[float, Number(0.01, 1000)] | None = Field(
        default=None,
        description="Every expert computes this many times its fair share of tokens, padded or dropped; "
        "default: no token is dropped",
    )
    group_limited: Annotated[bool, Field(strict=True)] = Field(
        default=True,
        description="The model's own limit on groups of experts holds; routing forced to be balanced ignores it",
    )
    one_hot: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="Tokens are moved by products with one-hot masks (static-shape compilers); needs a "
        "capacity_factor",
    )
    static_buffer: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="Kernels sweep a buffer for all tokens of the group (static-shape compilers without a capacity)",
    )
    dispatch_units: Annotated[int, Whole(1, 1024)] | None = Field(
        default=None,
        description="Compute units that a deduplicated or fused dispatch runs on: fewer than the stack's "
        "dispatch_full_rate_units (64 as a rule) slow it, and with overlap.ep compute lacks them; default: as many "
        "as it needs",
    )


class InputSpec(Section):
    """How samples reach the GPUs; loading is hidden under the step before, or waited for."""

    sample_bytes: Annotated[float, Quantity("bytes", "1 B", "1 TB")] | None = Field(
        default=None,
        alias="bytes_per_sample",
        description="What crosses the host path per sequence: all input tensors, or the encoded files",
        json_schema_extra={"unit": "bytes"},
    )
    host_bandwidth_Bps: Annotated[float, Quantity("bandwidth", "1 kB/s", "1000 TB/s")] | None = Field(
        default=None,
        alias="host_bandwidth",
        description="What the host path of one node (storage, memory, PCIe) carries to all its GPUs together",
        json_schema_extra={"unit": "bytes/s"},
    )
    samples_per_s: Annotated[float, Number(1e-6, 1e12)] | None = Field(
        default=None,
        description="Sequences that one loader worker prepares per second",
        json_schema_extra={"unit": "sequences/s"},
    )
    workers: Annotated[int, Whole(0, 4096)] = Field(
        default=1,
        description="Loader workers of one rank, which run beside the step; 0: the training process loads "
        "by itself, before each step",
    )


class TrainingSpec(Section):
    """What one step computes."""

    sequence_length: Annotated[int, Whole(1, 16_777_216)] = Field(
        default=1,
        description="Tokens per sequence; of a sequence recommender the mean number of positions. Needed, but for "
        "recommenders without sequences",
        json_schema_extra={"unit": "tokens"},
    )
    global_batch: Annotated[int, Whole(1, 100_000_000)] = Field(
        description="Sequences (samples of a recommender) per step over all replicas",
        json_schema_extra={"unit": "sequences"},
    )
    micro_batch: Annotated[int, Whole(1, 1_000_000)] = Field(
        default=1,
        description="Sequences per forward pass of one replica",
        json_schema_extra={"unit": "sequences"},
    )
    precision: Precision = Field(description="Number format of the linear layers' GEMMs")
    recompute: RecomputeSpec = Field(
        default=RecomputeSpec(), description="Activations computed again in the backward pass"
    )
    attention: Literal["fused", "unfused"] = Field(default="fused", description="Attention kernel")
    gradient_dtype: Literal["fp32", "bf16"] = Field(
        default="fp32", description="Format gradients are kept and reduced in"
    )
    parameter_dtype: Literal["bf16", "fp32"] = Field(
        default="bf16", description="Format parameters are kept and gathered in"
    )
    optimizer: Literal["adam"] = Field(
        default="adam", description="Optimizer; AdamW costs the same and is adam here"
    )
    lora: LoraSpec | None = Field(
        default=None, description="Low-rank adapters over a frozen base; default: train everything"
    )
    cross_entropy: Literal["fused", "unfused"] | None = Field(
        default=None, description="Cross-entropy kernel; default: what the stack does"
    )
    dropout: Annotated[float, Number(0, 1, below=True)] = Field(
        default=0.0, description="Dropout probability"
    )
    activation_store: Literal["computed", "fp8"] = Field(
        default="computed",
        description="Format in which the input of the MLP's activation function waits for the backward pass; "
        "computed: that of computing; fp8: one byte each, for two more casts",
    )
    deterministic_attention: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="Attention's backward pass adds its partial gradients in a fixed order: they are all kept "
        "until then",
    )
    offload: OffloadSpec = Field(default=OffloadSpec(), description="What waits in host memory")
    host_launch_s: Annotated[float, Quantity("time", "1 ns", "1 s")] | None = Field(
        default=None,
        alias="host_launch",
        description="Host time to launch each dependent kernel of a fused layer (14 and more per layer) and what "
        "goes with it: compute takes at least that long; default: what the stack says, mostly nothing",
        json_schema_extra={"unit": "s"},
    )
    graphs: Literal["none", "full"] = Field(
        default="none",
        description="full: passes are launched as graphs, so that the host does not limit them",
    )
    moe: MoeSpec = Field(default=MoeSpec(), description="Routing, of models with experts")
    embeddings: EmbeddingSpec = Field(
        default=EmbeddingSpec(), description="Embedding tables, of recommenders"
    )
    lengths: LengthSpec = Field(
        default=LengthSpec(), description="Lengths of sequences, of recommenders that have some"
    )
    input: InputSpec | None = Field(
        default=None, description="Input pipeline; default: samples are always there in time"
    )


class OverlapSpec(Section):
    """Which communication may run beside compute."""

    dp: Annotated[bool, Field(strict=True)] = Field(
        default=True, description="Gradient reduction and parameter gathering"
    )
    tp: Annotated[bool, Field(strict=True)] = Field(default=False, description="Tensor-parallel collectives")
    ep: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="Tokens on their way to experts and back"
    )
    pp: Annotated[bool, Field(strict=True)] = Field(default=True, description="Pipeline sends and receives")
    one_stream: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="Collectives inside layers (tokens to experts, tensor and context parallelism) and those beside them "
        "(gradients, gathered parameters) take turns on one stream; default: they run at the same time",
    )


class ParallelismSpec(Section):
    """Who does what. The data-parallel degree follows from the GPU count."""

    tp: Degree = Field(default=1, description="Tensor-parallel degree")
    cp: Degree = Field(default=1, description="Context-parallel degree: ranks that share a sequence")
    cp_method: Literal["ring", "all-gather", "all-to-all"] = Field(
        default="ring",
        description="ring: keys and values go round beside attention; all-gather: they are gathered first; "
        "all-to-all: each rank attends with part of the heads over whole sequences",
    )
    pp: Degree = Field(default=1, description="Pipeline stages")
    ep: Degree = Field(
        default=1, description="Expert-parallel degree: replicas that share one set of experts"
    )
    etp: Degree = Field(
        default_factory=lambda fields: int(fields.get("tp", 1)),
        description="Expert-tensor-parallel degree: ranks that split each routed expert; the experts of a layer have "
        "tp·cp·dp / (ep·etp) copies; default: tp",
    )
    order: Annotated[str, AxisOrder(AXES)] = Field(
        default="-".join(AXES),
        description="Axes over the ranks, those of neighbours first: what lies inside a node and what crosses the "
        "network; routed experts use tp (etp wide), ep, dp and pp of it, all else tp, cp, dp and pp; axes left out come "
        "last",
    )
    schedule: Literal[
        "1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe", "dualpipe-v"
    ] = Field(
        default="1f1b",
        description="Pipeline schedule; interleaved: 1f1b over virtual stages; zb-h1: 1f1b with weight gradients "
        "run apart; zb-h2: twice as much in flight; zbv, v-half, v-min: on two parts per stage, with as much, half or "
        "a third of the memory; dualpipe: both ways through two copies of the model, forwards beside backwards; "
        "dualpipe-v: the same on one folded copy",
    )
    virtual_stages: Annotated[int, Whole(1, 1024)] = Field(
        default=1, description="interleaved: parts of the model that each stage holds"
    )
    layout: Annotated[Literal["auto", "balanced"] | tuple[int, ...], StageLayers(1024, Whole(0, 10_000))] = (
        Field(
            default="auto",
            description="Layers of each pipeline stage, or of each virtual one in model order; auto: as even as they go; "
            "balanced: the dearest part by FLOPs costs least, output layer counted",
        )
    )
    first_stage_layers: Annotated[int, Whole(1, 10_000)] | None = Field(
        default=None,
        description="Layers of the first stage; the others share the rest; default: as layout says",
    )
    last_stage_layers: Annotated[int, Whole(1, 10_000)] | None = Field(
        default=None,
        description="Layers of the last stage; the others share the rest; default: as layout says",
    )
    data_sharding: Literal["ddp", "zero-1", "zero-2", "fsdp"] = Field(
        default="zero-1",
        description="ddp: replicas; zero-1: optimizer state sharded; zero-2: gradients too, reduced after every "
        "micro-batch; fsdp: parameters too",
    )
    hsdp_replicas: Degree = Field(
        default=1,
        description="fsdp: copies of the sharded model; each is spread over dp·cp / hsdp_replicas neighbours",
    )
    sequence_parallel: Annotated[bool, Field(strict=True)] = Field(
        default_factory=lambda fields: bool(fields.get("tp", 1) > 1),
        description="Shard the activations between tensor-parallel regions; default: with tp above 1",
    )
    reshard: Annotated[bool, Field(strict=True)] = Field(
        default_factory=lambda fields: bool(fields.get("pp", 1) == 1),
        description="fsdp: free gathered parameters after each pass and gather them again for the next; false keeps "
        "them for the backward, beside a pipeline for the whole step; default: without a pipeline",
    )
    gradient_sync: Literal["every", "last"] = Field(
        default_factory=lambda fields: (
            "last" if fields.get("data_sharding") == "fsdp" and fields.get("pp", 1) != 1 else "every"
        ),
        description="fsdp: every micro-batch reduces its gradients and only shards of them are kept, or the last one "
        "reduces what all of them added up; default: last beside a pipeline, else every",
    )
    prefetch: Annotated[int, Whole(0, 1024)] = Field(
        default=1, description="fsdp: layers gathered ahead of use"
    )
    bucket: Literal["layer", "megatron"] = Field(
        default="layer",
        description="Gradients that travel together (and updated parameters): layer: those of one layer, of the embedding, "
        "of the head; megatron: its default, max(40, dp) million parameters on the first part of the model, all of any other",
    )
    bucket_size_bytes: Annotated[float, Quantity("bytes", "1 kB", "100 TB")] | None = Field(
        default=None,
        alias="bucket_size",
        description="Bytes of gradients that travel together instead (PyTorch's DDP: 25 MiB); layers are collected until "
        "they are that many or more, and a larger one fills several buckets",
        json_schema_extra={"unit": "bytes"},
    )
    bucket_parameters: Annotated[int, Whole(1000, 10**15)] | None = Field(
        default=None, description="The same in parameters"
    )
    gather_dtype: Literal["bf16", "fp8"] = Field(
        default="bf16", description="fsdp: format in which parameters travel when they are gathered"
    )
    tables: TableShardingSpec = Field(
        default=TableShardingSpec(), description="Embedding tables, of recommenders"
    )
    overlap: OverlapSpec = Field(default=OverlapSpec(), description="Communication beside compute, by kind")
    optimizer_barrier: Annotated[bool, Field(strict=True)] = Field(
        default=True,
        description="All stages wait for the norm of all gradients; false: each updates and goes on by itself, and an "
        "update that was wrong is taken back (zero-bubble post-validation)",
    )


class MetricsSpec(Section):
    """How results are counted."""

    mfu_convention: Literal["palm", "megatron"] = Field(
        default="megatron", description="FLOPs per token that MFU and TFLOP/s count"
    )


class Scenario(Section):
    """One question: this model, on these machines, trained so, divided so."""

    schema_version: Literal[1] = Field(default=1, alias="schema", description="Version of this file format")
    name: Annotated[str, Text(200)] = Field(default="unnamed scenario", description="Title in words")
    notes: Annotated[str, Text(10_000, shortest=0)] | None = Field(
        default=None, description="Remarks; not used"
    )
    model: Annotated[str | Architecture | Recommender, ModelChoice()] = Field(
        description="Model of the catalog, or a mapping with its architecture",
        json_schema_extra={"names": "model"},
    )
    cluster: ClusterSpec = Field(description="Machines")
    training: TrainingSpec = Field(description="What one step computes")
    parallelism: ParallelismSpec = Field(default=ParallelismSpec(), description="Who does what")
    metrics: MetricsSpec = Field(default=MetricsSpec(), description="How results are counted")
    variability: VariabilitySpec | None = Field(
        default=None,
        description="What differs between GPUs and between steps; default: nothing, and no spread",
    )
    seed: Annotated[int, Whole(0, 2**32 - 1)] = Field(
        default=0,
        description="Moves the hashes of ecmp routing, scattered nodes and the draws of variability",
    )

    @property
    def gpus(self) -> int:
        """GPUs in use altogether."""
        if self.cluster.gpus is not None:
            return self.cluster.gpus
        from hwmodels import catalog

        return self.cluster.nodes * catalog.node(self.cluster.node).gpus

    @property
    def axis_order(self) -> tuple[str, ...]:
        """All axes, neighbours first."""
        return whole_order(tuple(self.parallelism.order.split("-")))

    @property
    def dp(self) -> int:
        """Data-parallel replicas: GPUs / (tp·cp·pp)."""
        parallelism = self.parallelism
        return self.gpus // (parallelism.tp * parallelism.cp * parallelism.pp)

    @property
    def parts(self) -> int:
        """Parts that pipeline stages cut the model into; ``dualpipe`` holds each of them twice."""
        p = self.parallelism
        folded = p.schedule in ("zbv", "v-half", "v-min", "dualpipe-v")
        return p.pp * (2 if folded else p.virtual_stages)

    @property
    def microbatches(self) -> int:
        """Micro-batches of one replica per step."""
        return self.training.global_batch // (self.training.micro_batch * self.dp)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is given but without effect, and what lies outside what is modelled."""
        from sim.scenario.cautions import cautions

        return cautions(self)
