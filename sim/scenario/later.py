"""What a user may reasonably write that this version does not model: known, refused, never ignored."""

from __future__ import annotations

NOT_YET = "not modelled yet"

_DERIVED = "is derived, GPUs / (tp·cp·pp): set cluster.nodes, or cluster.gpus for part of a node"

FIELDS: dict[str, str] = {
    "job": NOT_YET,
    "cost": NOT_YET,
    "data": "is called training.input here",
    "cluster.pools": f"{NOT_YET}: one node type per scenario",
    "training.attention_backward": NOT_YET,
    "training.recompute.ids": "is called layers here: {layers: [0, 1, 5]}",
    "parallelism.dp": _DERIVED,
    "parallelism.hsdp": "is called hsdp_replicas here: data_sharding: fsdp with copies of the sharded model",
    "parallelism.dispatch": "is called training.moe.dispatch here",
    "parallelism.balance": "is called training.moe.balance_factor here",
    "parallelism.data_parallel_size": _DERIVED,
    "parallelism.data_parallel_shard_degree": _DERIVED,
    "parallelism.data_parallel_replicate_degree": _DERIVED,
    "parallelism.num_layers_per_virtual_pipeline_stage": "write virtual_stages: layers / (pp · this number)",
    "parallelism.overlap.cp": "follows from cp_method: ring runs beside attention, the others do not",
    "model.moe_ffn": "is called model.experts.ffn here",
    "model.num_experts": "is called model.experts.count here",
    "model.num_local_experts": "is called model.experts.count here",
    "model.n_routed_experts": "is called model.experts.count here",
    "<<": "merge keys belong to YAML 1.1: use extends, or write the fields",
}
"""By dotted path of the field."""

MODELS: dict[str, tuple[str, ...]] = {
    "layers of linear attention beside softmax attention": (
        "qwen3-next",
        "qwen3.5",
        "kimi-linear",
        "minimax-01",
        "minimax-text-01",
        "minimax-m1",
        "nemotron-h",
        "nemotron-nano-9b-v2",
        "ring-linear",
        "ling-linear",
        "granite-4",
        "falcon-h1",
        "jamba",
        "zamba",
        "bamba",
        "hymba",
        "samba",
        "mamba",
        "rwkv",
        "recurrentgemma",
        "zebra-llama",
    ),
    "diffusion transformers": ("flux", "stable-diffusion", "sd3", "dit-xl", "hunyuanvideo", "wan2", "pixart"),
}
"""Parts of the names of models, by what they have."""

VALUES: dict[str, frozenset[str]] = {
    "cluster.fabric.kind": frozenset({"fat-tree"}),
    "cluster.scale_up.kind": frozenset({"uneven-mesh"}),
    "training.optimizer": frozenset({"sgd", "muon", "adafactor", "lion"}),
    "training.recompute.modules": frozenset({"shared_experts"}),
    "training.lora.targets": frozenset({"fc1", "fc2", "mlp_in", "mlp_out"}),
    "parallelism.data_sharding": frozenset({"zero-3", "hsdp"}),
}
"""Values of a choice that later versions know."""
