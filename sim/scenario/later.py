"""What a user may reasonably write that this version does not model: known, refused, never ignored."""

from __future__ import annotations

NOT_YET = "not modelled yet"

_DERIVED = "is derived, GPUs / (tp·cp·pp): set cluster.nodes, or cluster.gpus for part of a node"

FIELDS: dict[str, str] = {
    "job": NOT_YET,
    "cost": NOT_YET,
    "data": NOT_YET,
    "variability": NOT_YET,
    "cluster.pools": f"{NOT_YET}: one node type per scenario",
    "cluster.placement": f"{NOT_YET}: tp lies inside a node, then dp, then pp",
    "training.attention_backward": NOT_YET,
    "training.recompute.ids": f"{NOT_YET}: give a number of layers",
    "parallelism.dp": _DERIVED,
    "parallelism.order": f"{NOT_YET}: tp lies inside a node, then dp, then pp",
    "parallelism.hsdp": f"{NOT_YET}: fsdp shards over all replicas",
    "parallelism.virtual_stages": f"{NOT_YET}: 1f1b and gpipe have one chunk per stage",
    "parallelism.dispatch": f"{NOT_YET}: dense models only",
    "parallelism.balance": f"{NOT_YET}: dense models only",
    "parallelism.bucket": NOT_YET,
    "parallelism.data_parallel_size": _DERIVED,
    "parallelism.data_parallel_shard_degree": _DERIVED,
    "parallelism.data_parallel_replicate_degree": _DERIVED,
    "parallelism.num_layers_per_virtual_pipeline_stage": f"{NOT_YET}: interleaved schedules come later",
    "parallelism.virtual_pipeline_model_parallel_size": f"{NOT_YET}: interleaved schedules come later",
    "parallelism.overlap.ep": f"{NOT_YET}: dense models only",
    "parallelism.overlap.cp": f"{NOT_YET}: cp is 1 in this version",
    "model.experts": f"{NOT_YET}: dense models only",
    "model.moe_ffn": f"{NOT_YET}: dense models only",
    "model.num_experts": f"{NOT_YET}: dense models only",
    "model.num_local_experts": f"{NOT_YET}: dense models only",
    "model.n_routed_experts": f"{NOT_YET}: dense models only",
    "<<": "merge keys belong to YAML 1.1: use extends, or write the fields",
}
"""By dotted path of the field."""

VALUES: dict[str, frozenset[str]] = {
    "cluster.fabric.kind": frozenset({"fat-tree"}),
    "cluster.scale_up.kind": frozenset({"uneven-mesh"}),
    "training.optimizer": frozenset({"sgd", "muon", "adafactor", "lion"}),
    "training.lora.targets": frozenset({"fc1", "fc2", "mlp_in", "mlp_out"}),
    "parallelism.data_sharding": frozenset({"zero-2", "zero-3", "hsdp"}),
    "parallelism.schedule": frozenset(
        {"interleaved", "interleaved-1f1b", "zero-bubble", "zb-h1", "zbv", "dualpipe", "dualpipe-v"}
    ),
}
"""Values of a choice that later versions know."""
