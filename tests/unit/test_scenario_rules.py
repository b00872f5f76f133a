"""Every rule across fields: broken by one change, located at the field at fault, worded with what would be right."""

from __future__ import annotations

import pytest

from hwmodels import catalog
from sim.scenario import ScenarioError, loads
from sim.scenario.finding import Check
from sim.scenario.machine import network, node
from sim.scenario.plan_rules import MOST_CHUNKS
from sim.scenario.rules import COMMON_RULES, TRANSFORMER_RULES, broken_rules

DENSE = """\
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 4}
training: {sequence_length: 8192, global_batch: 128, precision: bf16}
"""
WIDTHS = "layers: 6, hidden: 768, ffn: 3072, heads: 12, vocab: 50304"
INLINE = DENSE.replace("llama-3.1-8b", f"{{{WIDTHS}}}")

RULES = (*COMMON_RULES, *TRANSFORMER_RULES)  # those of recommenders: test_recommenders.py

# (rule, changes that break it, field, words)
CASES = [
    (
        "stack_matches_the_gpu",
        ["cluster.node=mi250x-8gcd-4x200g", "cluster.stack=primus-2026-mi300x"],
        "cluster.stack",
        "is for mi300x",
    ),
    (
        "gpu_count_fits_the_nodes",
        ["cluster.nodes=1", "cluster.gpus=9"],
        "cluster.gpus",
        "1 nodes of 8 GPUs have 8, not 9",
    ),
    ("gpu_count_fits_the_nodes", ["cluster.gpus=16"], "cluster.gpus", "16 of 32 GPUs: part of a node"),
    ("power_cap_is_within_the_boards", ["cluster.power_cap=751 W"], "cluster.power_cap", "above the 750 W"),
    (
        "gpu_has_the_formats",
        ["training.precision=nvfp4"],
        "training.precision",
        "mi300x has no nvfp4 matrix rate; it has bf16, ",
    ),
    (
        "gpu_has_the_formats",
        ["cluster.node=mi250x-8gcd-4x200g", "training.precision=fp8"],
        "training.precision",
        "has no fp8 matrix rate",
    ),
    (
        "narrow_state_needs_narrow_compute",
        ["training.precision=fp32", "training.gradient_dtype=bf16"],
        "training.gradient_dtype",
        "no effect with precision: fp32",
    ),
    (
        "scale_up_change_is_complete",
        ["cluster.scale_up={kind: switch}"],
        "cluster.scale_up.kind",
        "switch instead of mesh",
    ),
    (
        "scale_up_change_is_complete",
        ["cluster.scale_up={link_bandwidth: 64 GB/s, usable_bandwidth: 50 GB/s}"],
        "cluster.scale_up.usable_bandwidth",
        "keep one of the two",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={oversubscription: [1, 7]}"],
        "cluster.fabric.oversubscription",
        "has no effect on a non-blocking network",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: clos, tiers: 3, oversubscription: [1]}"],
        "cluster.fabric.oversubscription",
        "1 entries for 3",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: torus, dims: [3, 5]}"],
        "cluster.fabric.dims",
        "[3, 5] make 15 nodes",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: clos, queue_pairs: 4}"],
        "cluster.fabric.queue_pairs",
        "only ecmp hashes",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: clos, tiers: 1, radix: 16}"],
        "cluster.fabric",
        "4 nodes with 8 NICs do not fit a clos of 1 tiers of 16-port switches: 2 do",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: clos}", "cluster.nics=9"],
        "cluster.nics",
        "9 NICs do not share out to 8 GPUs",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: clos}", "cluster.nic_bandwidth=900 Gbps"],
        "cluster.fabric",
        "has no ports for NICs of 900 Gbps: name another switch, or give a radix",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: clos, dims: [2, 2]}"],
        "cluster.fabric.dims",
        "belongs to a torus, this fabric is clos",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: torus}"],
        "cluster.fabric.dims",
        "a torus needs the number of nodes along each dimension",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={kind: torus, dims: [2, 2], oversubscription: [2]}"],
        "cluster.fabric.oversubscription",
        "a torus fabric has none",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={routing: ecmp}"],
        "cluster.fabric.routing",
        "has no effect on a non-blocking network",
    ),
    (
        "fabric_can_be_built",
        ["cluster.fabric={pxn: true}"],
        "cluster.fabric.pxn",
        "has no effect on a non-blocking network",
    ),
    (
        "fabric_can_be_built",
        ["cluster.nodes=32769", "training.global_batch=262152", "cluster.fabric={kind: clos}"],
        "cluster.nodes",
        "laid out for up to 262,144",
    ),
    (
        "sequence_divides_over_context_parallel",
        ["parallelism.cp=2", "training.sequence_length=8190"],
        "training.sequence_length",
        "8190 must be a multiple of 2·cp = 4",
    ),
    (
        "sequence_divides_over_context_parallel",
        ["parallelism={tp: 2, cp: 2}", "training.sequence_length=8188"],
        "training.sequence_length",
        "8188 must be a multiple of 2·cp·tp = 8",
    ),
    (
        "heads_divide_over_context_parallel",
        ["parallelism={tp: 4, cp: 4, cp_method: all-to-all}"],
        "parallelism.cp_method",
        "tp·cp = 16 must divide kv_heads (8)",
    ),
    (
        "context_parallel_attention_is_fused",
        ["parallelism.cp=2", "training.attention=unfused"],
        "training.attention",
        "with cp above 1 not modelled yet",
    ),
    (
        "windows_are_not_passed_round",
        ["model=gpt-oss-20b", "parallelism.cp=2"],
        "parallelism.cp_method",
        "sliding windows (gpt-oss-20b) in a ring are not modelled yet",
    ),
    (
        "method_has_context_parallel",
        ["parallelism.cp_method=ring"],
        "parallelism.cp_method",
        "no effect with cp: 1",
    ),
    (
        "offload_has_a_link",
        [
            "cluster.node=mi300a-4x200g",
            "cluster.stack=primus-2026-mi300a",
            "training.offload.optimizer=streamed",
        ],
        "training.offload.optimizer",
        "give cluster.gpu.host_link",
    ),
    (
        "offloaded_layers_exist",
        ["training.offload.activation_layers=9999"],
        "training.offload.activation_layers",
        "at least the last one stays",
    ),
    (
        "offloaded_layers_exist",
        ["training.offload.activation_layers=1", "parallelism.pp=2"],
        "training.offload.activation_layers",
        "beside a pipeline",
    ),
    (
        "offloaded_layers_exist",
        ["training.offload.activation_layers=1", "training.recompute=full"],
        "training.offload.activation_layers",
        "recomputation",
    ),
    (
        "host_update_has_a_rate",
        ["training.offload.optimizer=host"],
        "training.offload.host_update_bandwidth",
        "is needed",
    ),
    (
        "graphs_replace_launches",
        ["training.graphs=full"],
        "training.graphs",
        "states no host_launch",
    ),
    (
        "graphs_replace_launches",
        ["training.graphs=full", "training.host_launch=9 us"],
        "training.host_launch",
        "no effect with graphs",
    ),
    (
        "fixed_order_is_known",
        ["training.deterministic_attention=true"],
        "training.deterministic_attention",
        "memory.deterministic_keys",
    ),
    (
        "fixed_order_is_known",
        ["training.deterministic_attention=true", "training.attention=unfused"],
        "training.deterministic_attention",
        "no effect on unfused attention",
    ),
    (
        "host_path_has_bytes",
        ["training.input={samples_per_s: 9, host_bandwidth: 1 GB/s}"],
        "training.input.host_bandwidth",
        "needs training.input.bytes_per_sample",
    ),
    (
        "host_path_has_bytes",
        ["training.input={samples_per_s: 9, bytes_per_sample: 1 MB}"],
        "training.input.bytes_per_sample",
        "no effect without training.input.host_bandwidth",
    ),
    ("loading_takes_time", ["training.input={workers: 0}"], "training.input", "says nothing that takes time"),
    (
        "loading_takes_time",
        ["training.input={workers: 2, bytes_per_sample: 1 MB, host_bandwidth: 1 GB/s}"],
        "training.input.workers",
        "no effect without samples_per_s",
    ),
    ("experts_divide_over_ranks", ["parallelism.ep=2"], "parallelism.ep", "llama-3.1-8b has no experts"),
    (
        "experts_divide_over_ranks",
        ["model=qwen3-30b-a3b", "parallelism.ep=3"],
        "parallelism.ep",
        "3 must divide the 128 experts",
    ),
    (
        "experts_divide_over_ranks",
        ["model=qwen3-30b-a3b", "parallelism.ep=64"],
        "parallelism.ep",
        "64 must divide dp·cp = 32·1",
    ),
    ("routing_has_experts", ["training.moe={dispatch: fused}"], "training.moe", "has no experts"),
    ("routing_has_experts", ["parallelism.overlap={ep: true}"], "parallelism.overlap.ep", "has no experts"),
    (
        "routing_is_consistent",
        ["model=mixtral-8x7b", "training.moe={capacity_factor: 1.5, balance_factor: 2}"],
        "training.moe.balance_factor",
        "give one of the two",
    ),
    (
        "routing_is_consistent",
        ["model=mixtral-8x7b", "parallelism.ep=2", "training.moe={balance_factor: 3}"],
        "training.moe.balance_factor",
        "at most 2 times the mean",
    ),
    (
        "routing_is_consistent",
        ["model=mixtral-8x7b", "training.moe={one_hot: true}"],
        "training.moe.one_hot",
        "give capacity_factor",
    ),
    (
        "routing_is_consistent",
        ["model=mixtral-8x7b", "training.moe={one_hot: true, capacity_factor: 1, dispatch: fused}"],
        "training.moe.one_hot",
        "one copy per expert, not fused",
    ),
    (
        "routing_is_consistent",
        ["model=mixtral-8x7b", "training.moe={static_buffer: true, capacity_factor: 1}"],
        "training.moe.static_buffer",
        "bounds the buffer",
    ),
    (
        "routing_is_consistent",
        ["model=mixtral-8x7b", "training.moe={dispatch_units: 32}"],
        "training.moe.dispatch_units",
        "belongs to a deduplicated or fused dispatch",
    ),
    (
        "routing_is_consistent",
        ["model=mixtral-8x7b", "training.moe={dispatch: fused}", "parallelism.overlap={ep: true}"],
        "parallelism.overlap.ep",
        "hidden already",
    ),
    (
        "tensor_parallel_divides_the_experts",
        ["model={base: mixtral-8x7b, experts: {ffn: 1001}}", "parallelism.tp=2"],
        "parallelism.tp",
        "2 must divide ffn of experts (1001)",
    ),
    (
        "tensor_parallel_divides_the_experts",
        ["model=mixtral-8x7b", "parallelism.tp=2", "parallelism.sequence_parallel=false"],
        "parallelism.sequence_parallel",
        "each rank routes its own tokens",
    ),
    (
        "experts_divide_over_ranks",
        ["model=mixtral-8x7b", "parallelism={tp: 2, ep: 8, etp: 8}"],
        "parallelism.ep",
        "ep·etp = 8·8 must divide tp·cp·dp = 2·1·16",
    ),
    (
        "tensor_parallel_divides_the_experts",
        ["model={base: mixtral-8x7b, experts: {ffn: 1001}}", "parallelism.etp=2"],
        "parallelism.etp",
        "2 must divide ffn of experts (1001)",
    ),
    (
        "expert_tensor_parallel_has_experts",
        ["parallelism.etp=2"],
        "parallelism.etp",
        "llama-3.1-8b has no experts",
    ),
    (
        "expert_tensor_parallel_has_experts",
        ["model=mixtral-8x7b", "parallelism.etp=16"],
        "parallelism.etp",
        "etp must divide the 8 GPUs",
    ),
    (
        "expert_tensor_parallel_has_experts",
        ["model=mixtral-8x7b", "parallelism.etp=2", "training.moe={capacity_factor: 1, one_hot: true}"],
        "parallelism.etp",
        "one-hot masks",
    ),
    (
        "order_names_every_axis",
        ["parallelism={tp: 2, order: tp-pp}"],
        "parallelism.order",
        "tp-pp leaves out dp, whose degree is 16",
    ),
    (
        "tensor_parallel_neighbours_share_a_domain",
        ["parallelism={tp: 2, order: dp-tp}"],
        "parallelism.order",
        "dp-tp puts the 2 ranks of tp 16 apart",
    ),
    (
        "tensor_parallel_neighbours_share_a_domain",
        ["model=mixtral-8x7b", "parallelism={etp: 2, ep: 8, order: ep-tp-dp}"],
        "parallelism.order",
        "puts the 2 ranks of etp 8 apart",
    ),
    (
        "replicas_are_evenly_spaced",
        ["parallelism={tp: 2, cp: 2, order: cp-tp-dp}"],
        "parallelism.order",
        "with tp between them",
    ),
    (
        "replicas_are_evenly_spaced",
        [
            "parallelism={tp: 2, cp: 2, pp: 2, order: tp-cp-pp-dp, data_sharding: fsdp, hsdp_replicas: 2}",
        ],
        "parallelism.order",
        "replicas of shards with pp between",
    ),
    (
        "experts_share_the_stages",
        ["model=mixtral-8x7b", "parallelism={tp: 2, ep: 4, etp: 1, pp: 2, order: tp-pp-ep-cp-dp}"],
        "parallelism.order",
        "stages lie 2 ranks apart, those of routed experts 1",
    ),
    (
        "two_copies_have_stages_last",
        ["parallelism={pp: 4, schedule: dualpipe, order: pp-dp}"],
        "parallelism.order",
        "put pp last",
    ),
    (
        "scattered_nodes_have_switches_between",
        ["cluster.placement=scattered"],
        "cluster.placement",
        "no effect on a non-blocking network",
    ),
    (
        "experts_have_one_copy",
        ["model=mixtral-8x7b", "parallelism.data_sharding=fsdp", "parallelism.hsdp_replicas=2"],
        "parallelism.hsdp_replicas",
        "beside experts",
    ),
    (
        "adapters_have_a_plain_base",
        ["model=deepseek-v2", "training.lora={rank: 8}"],
        "training.lora",
        "adapters on a model with latent attention",
    ),
    (
        "operators_are_known",
        ["model=mixtral-8x7b", "training.recompute=operator"],
        "training.recompute.kind",
        "none, selective or full",
    ),
    (
        "gpus_divide_into_replicas",
        ["parallelism.pp=3"],
        "parallelism.pp",
        "32 GPUs must be a multiple of tp·pp·cp = 1·3·1 = 3",
    ),
    ("tensor_parallel_stays_in_a_domain", ["parallelism.tp=16"], "parallelism.tp", "TP spans nodes"),
    (
        "tensor_parallel_stays_in_a_domain",
        ["cluster.scale_up={domain_gpus: 4}", "parallelism.tp=8"],
        "parallelism.tp",
        "the 4 GPUs",
    ),
    (
        "tensor_parallel_divides_the_model",
        [f"model={{{WIDTHS}}}", "parallelism.tp=8"],
        "parallelism.tp",
        "8 must divide heads (12)",
    ),
    (
        "tensor_parallel_divides_the_model",
        [f"model={{{WIDTHS}, kv_heads: 2}}", "parallelism.tp=4"],
        "parallelism.tp",
        "replicated KV heads",
    ),
    (
        "tensor_parallel_divides_the_model",
        [f"model={{{WIDTHS}, kv_heads: 6}}", "parallelism.tp=4"],
        "parallelism.tp",
        "must divide kv_heads (6)",
    ),
    (
        "sequence_parallel_has_tensor_parallel",
        ["parallelism.sequence_parallel=true"],
        "parallelism.sequence_parallel",
        "no effect with tp: 1",
    ),
    (
        "sequence_divides_over_tensor_parallel",
        ["parallelism.tp=8", "training.sequence_length=1001"],
        "training.sequence_length",
        "multiple of tp (8)",
    ),
    (
        "sequence_fits_the_position_table",
        [f"model={{{WIDTHS}, position: learned, max_positions: 2048}}"],
        "training.sequence_length",
        "8192 is longer than the 2048",
    ),
    (
        "batch_divides_over_replicas",
        ["training.global_batch=100"],
        "training.global_batch",
        "= 1·32 = 32; nearest: 96 or 128",
    ),
    ("batch_divides_over_replicas", ["training.micro_batch=8"], "training.global_batch", "nearest: 256"),
    (
        "step_is_short_enough_to_simulate",
        ["training.global_batch=99999968"],
        "training.global_batch",
        "micro-batches per replica: at most",
    ),
    (
        "step_is_short_enough_to_simulate",
        ["training.global_batch=320000", "parallelism.data_sharding=fsdp"],
        "training.global_batch",
        f"at most {MOST_CHUNKS // 32:,}",
    ),
    (
        "stages_have_layers",
        [f"model={{{WIDTHS}}}", "parallelism.pp=8"],
        "parallelism.pp",
        "8 stages for 6 layers",
    ),
    (
        "layout_covers_the_model",
        ["parallelism={pp: 2, layout: [16, 15]}"],
        "parallelism.layout",
        "sums to 31, the model has 32",
    ),
    (
        "layout_covers_the_model",
        ["parallelism={pp: 2, layout: [32]}"],
        "parallelism.layout",
        "1 entries for 2 stages",
    ),
    (
        "recompute_has_layers",
        ["training.recompute={layers: 33}"],
        "training.recompute.layers",
        "33 is more than the 32 layers of the model",
    ),
    (
        "recompute_has_layers",
        ["parallelism.pp=4", "training.recompute={layers: 9}"],
        "training.recompute.layers",
        "more than the 8 layers",
    ),
    (
        "schedule_has_a_pipeline",
        ["parallelism.schedule=gpipe"],
        "parallelism.schedule",
        "no effect with pp: 1",
    ),
    (
        "stages_have_layers",
        ["parallelism={pp: 4, schedule: interleaved, virtual_stages: 9}"],
        "parallelism.virtual_stages",
        "4 stages with 9 parts each for 32 layers",
    ),
    (
        "layout_covers_the_model",
        ["parallelism={pp: 2, schedule: zbv, layout: [16, 16]}"],
        "parallelism.layout",
        "2 entries for 2 stages: one for each of 4 virtual stages",
    ),
    (
        "layout_covers_the_model",
        ["parallelism={pp: 2, layout: [0, 32]}"],
        "parallelism.layout",
        "only the first and the last part of an interleaved schedule",
    ),
    (
        "layout_covers_the_model",
        ["parallelism={pp: 2, schedule: interleaved, virtual_stages: 2, layout: [16, 0, 8, 8]}"],
        "parallelism.layout",
        "only the first and the last part",
    ),
    (
        "ends_leave_the_rest",
        ["parallelism={first_stage_layers: 3}"],
        "parallelism.first_stage_layers",
        "no effect with pp: 1",
    ),
    (
        "ends_leave_the_rest",
        ["parallelism={pp: 2, first_stage_layers: 16, layout: [16, 16]}"],
        "parallelism.first_stage_layers",
        "beside layout",
    ),
    (
        "ends_leave_the_rest",
        ["parallelism={pp: 4, last_stage_layers: 30}"],
        "parallelism.last_stage_layers",
        "leaves 2 of 32 layers for 3 other parts",
    ),
    (
        "ends_leave_the_rest",
        ["parallelism={pp: 2, first_stage_layers: 16, last_stage_layers: 15}"],
        "parallelism.first_stage_layers",
        "leaves 1 of 32 layers for 0 other parts",
    ),
    (
        "ends_leave_the_rest",
        ["parallelism={pp: 2, last_stage_layers: 16, schedule: zbv}"],
        "parallelism.last_stage_layers",
        "with schedule: zbv write layout, a list",
    ),
    (
        "ends_leave_the_rest",
        ["parallelism={pp: 4, first_stage_layers: 5, schedule: interleaved, virtual_stages: 2}"],
        "parallelism.first_stage_layers",
        "5 must divide over 2 virtual stages",
    ),
    (
        "modules_are_there",
        ["training.recompute={modules: [moe]}"],
        "training.recompute.modules",
        "moe has no effect: llama-3.1-8b has no experts",
    ),
    (
        "modules_are_there",
        ["training.recompute={modules: [layernorm]}", "training.precision=fp8"],
        "training.recompute.modules",
        "modules but core_attn in fp8 are not modelled yet",
    ),
    (
        "recompute_has_layers",
        ["training.recompute={layers: [0, 32]}"],
        "training.recompute.layers",
        "32: layers of llama-3.1-8b are 0 to 31",
    ),
    (
        "recompute_has_layers",
        ["parallelism={pp: 4, schedule: v-half}", "training.recompute={layers: 5}"],
        "training.recompute.layers",
        "more than the 4 layers of the largest stage",
    ),
    (
        "virtual_stages_are_interleaved",
        ["parallelism={pp: 4, schedule: interleaved}"],
        "parallelism.schedule",
        "needs virtual_stages of 2 or more",
    ),
    (
        "virtual_stages_are_interleaved",
        ["parallelism={pp: 4, schedule: zbv, virtual_stages: 2}"],
        "parallelism.virtual_stages",
        "no effect with schedule: zbv",
    ),
    (
        "interleaved_rounds_are_equal",
        ["parallelism={pp: 4, schedule: interleaved, virtual_stages: 2}", "training.global_batch=72"],
        "training.global_batch",
        "9 micro-batches per replica: interleaved needs a multiple of pp (4), or fewer: global_batch 64 or 96",
    ),
    (
        "both_ways_have_their_microbatches",
        ["parallelism={pp: 3, schedule: dualpipe}", "cluster.gpus=6"],
        "parallelism.pp",
        "3 stages: dualpipe needs an even number",
    ),
    (
        "both_ways_have_their_microbatches",
        ["parallelism={pp: 4, schedule: dualpipe}", "training.global_batch=48"],
        "training.global_batch",
        "6 micro-batches per replica: dualpipe needs at least 2·pp = 8: global_batch 64 or more",
    ),
    (
        "both_ways_have_their_microbatches",
        ["parallelism={pp: 4, schedule: dualpipe-v}", "training.global_batch=56"],
        "training.global_batch",
        "7 micro-batches per replica: dualpipe-v needs at least 2·pp = 8: global_batch 64 or more",
    ),
    (
        "both_ways_have_their_microbatches",
        ["parallelism={pp: 4, schedule: dualpipe}", "training.global_batch=72"],
        "training.global_batch",
        "9 micro-batches per replica: dualpipe needs an even number, half for each way: global_batch 64 or 80",
    ),
    (
        "two_copies_are_plain",
        ["parallelism={pp: 4, schedule: dualpipe}", "training.input={samples_per_s: 10}"],
        "training.input",
        "takes samples in at both ends: not modelled yet",
    ),
    (
        "barrier_has_a_pipeline",
        ["parallelism.optimizer_barrier=false"],
        "parallelism.optimizer_barrier",
        "no effect with pp: 1",
    ),
    (
        "both_ways_share_no_gradients",
        ["parallelism={pp: 4, schedule: dualpipe-v, data_sharding: fsdp}"],
        "parallelism.data_sharding",
        "fsdp beside dualpipe-v is not modelled yet",
    ),
    (
        "gradients_are_reduced_somewhere",
        ["parallelism={pp: 2, data_sharding: zero-2, gradient_sync: last}"],
        "parallelism.gradient_sync",
        "zero-2 reduces every micro-batch",
    ),
    (
        "gradients_are_reduced_somewhere",
        ["parallelism={gradient_sync: every}"],
        "parallelism.gradient_sync",
        "no effect with data_sharding: zero-1",
    ),
    (
        "copies_divide_the_replicas",
        ["parallelism={tp: 2, data_sharding: fsdp, hsdp_replicas: 3}"],
        "parallelism.hsdp_replicas",
        "3 must divide dp·cp = 16·1 = 16",
    ),
    (
        "copies_divide_the_replicas",
        ["parallelism={data_sharding: fsdp, hsdp_replicas: 32}"],
        "parallelism.hsdp_replicas",
        "lie below it",
    ),
    (
        "copies_divide_the_replicas",
        ["parallelism.hsdp_replicas=2"],
        "parallelism.hsdp_replicas",
        "no effect with data_sharding: zero-1",
    ),
    (
        "fsdp_switches_have_fsdp",
        ["parallelism.reshard=true"],
        "parallelism.reshard",
        "no effect with data_sharding: zero-1",
    ),
    ("fsdp_switches_have_fsdp", ["parallelism.prefetch=2"], "parallelism.prefetch", "no effect"),
    (
        "buckets_are_filled",
        ["parallelism={bucket: megatron, bucket_size: 25 MiB}"],
        "parallelism.bucket_size",
        "twice",
    ),
    (
        "buckets_are_filled",
        ["parallelism={bucket_parameters: 40000000, data_sharding: fsdp}"],
        "parallelism.bucket_parameters",
        "its units are layers",
    ),
    (
        "buckets_are_filled",
        ["parallelism={bucket: megatron, overlap: {dp: false}}"],
        "parallelism.bucket",
        "all gradients travel at once",
    ),
    (
        "adapters_are_thinner_than_the_model",
        ["training.lora={rank: 5000}"],
        "training.lora.rank",
        "above the width",
    ),
    (
        "tables_have_a_recommender",
        ["training.embeddings={distinct: 0.5}"],
        "training.embeddings",
        "is no recommender",
    ),
    ("something_differs", ["variability={trials: 3}"], "variability", "says nothing that differs"),
    (
        "slow_devices_exist",
        ["variability={slow: [{node: 0, gpu: 8, speed: 0.5}]}"],
        "variability.slow.0",
        "GPU 8 of a node with 8",
    ),
    (
        "steps_end_together",
        ["variability={step_noise: 0.01}", "parallelism={pp: 2, optimizer_barrier: false}"],
        "variability",
        "without parallelism.optimizer_barrier",
    ),
]


@pytest.mark.parametrize(
    ("rule", "changes", "field", "words"), CASES, ids=[f"{c[0]}-{c[1][-1]}" for c in CASES]
)
def test_a_broken_rule_is_told_at_its_field(rule: str, changes: list[str], field: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        loads(DENSE, changes)
    own = [problem for problem in caught.value.problems if words in problem.message]
    assert [problem.path for problem in own] == [field], caught.value


def test_every_rule_has_a_case() -> None:
    needs_a_thin_stack = {
        "some_stack_covers_the_gpu",
        "stack_has_the_formats",
        "stack_has_the_attention_kernel",
    }
    assert {check.__name__ for check in RULES} - needs_a_thin_stack == {case[0] for case in CASES}  # type: ignore[attr-defined]


def test_an_unbroken_scenario_breaks_no_rule() -> None:
    assert list(broken_rules(loads(DENSE))) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_each_rule_is_silent_on_a_sound_plan(rule: Check) -> None:
    sound = loads(
        DENSE,
        ["parallelism={tp: 4, pp: 2, schedule: gpipe, layout: [15, 17]}", "training.recompute={layers: 17}"],
    )
    assert list(rule(sound)) == []


def stacks_without(what: str) -> list[tuple[str, str]]:
    """(node, stack) pairs whose stack lacks a fused attention rate, or a format that the GPU has."""
    found = []
    for name in catalog.names("node"):
        gpu = catalog.node(name).gpu
        for stack in (catalog.stack(s) for s in catalog.names("stack")):
            thin = not stack.attention_share if what == "attention" else "bf16" not in stack.gemm_efficiency
            if gpu.name in stack.gpus and thin and "bf16" in gpu.achievable_flops:
                found.append((name, stack.name))
    return found


@pytest.mark.parametrize(("node_name", "stack"), stacks_without("attention"))
def test_a_stack_without_fused_attention_asks_for_unfused(node_name: str, stack: str) -> None:
    changes = [f"cluster.node={node_name}", f"cluster.stack={stack}", f"training.precision={_format(stack)}"]
    with pytest.raises(ScenarioError, match="write attention: unfused"):
        loads(DENSE, changes)
    assert loads(DENSE, [*changes, "training.attention=unfused"]).training.attention == "unfused"


def _format(stack: str) -> str:
    return next(name for name in ("bf16", "fp16") if name in catalog.stack(stack).gemm_efficiency)


def test_a_stack_without_a_format_lists_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    thin = replace(catalog.newest_stack("mi300x"), gemm_efficiency={"fp16": 0.8}, attention_share={})
    monkeypatch.setattr(catalog, "newest_stack", lambda gpu, *, recommenders: thin)
    with pytest.raises(ScenarioError) as caught:
        loads(DENSE)
    assert [problem.path for problem in caught.value.problems] == [
        "training.precision",
        "training.attention",
    ] or [problem.path for problem in caught.value.problems] == ["training.attention", "training.precision"]
    assert "has no bf16 GEMM figure; it has fp16" in str(caught.value)


def test_a_gpu_without_a_stack_is_told_at_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(gpu: str, *, recommenders: bool) -> None:
        raise catalog.UnknownName("stack", gpu, (), f"no profile covers GPU {gpu}")

    monkeypatch.setattr(catalog, "newest_stack", none)
    with pytest.raises(ScenarioError) as caught:
        loads(DENSE)
    assert [problem.path for problem in caught.value.problems] == ["cluster.node"]
    assert "no profile covers GPU mi300x" in str(caught.value)


# Names


@pytest.mark.parametrize("kind", ["node", "nic", "stack"])
def test_unknown_names_list_known_ones(kind: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        loads(DENSE, [f"cluster.{kind}=nonesuch"])
    known = catalog.names(kind)
    assert any(name in caught.value.errors[0] for name in known)


def test_a_misspelt_name_is_met_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match=r"cluster\.nic: unknown NIC 'cx-7'; known: connectx-7"):
        loads(DENSE, ["cluster.nic=cx-7"])


# Warnings


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        (["seed=3"], "seed: has no effect"),
        (
            ["cluster.background_load={spine_core: 0.2}"],
            "cluster.background_load.spine_core: has no effect",
        ),
        (["cluster.nodes=1", "cluster.nics=4"], "cluster.nics: has no effect"),
        (["parallelism={tp: 8, order: ep-tp-cp-dp-pp}"], "parallelism.order: has no effect"),
        (["parallelism={tp: 8, pp: 4, data_sharding: ddp}"], "parallelism.data_sharding: ddp shares nothing"),
        (["parallelism.overlap={pp: false}"], "parallelism.overlap.pp: has no effect: pp is 1"),
        (
            ["parallelism={data_sharding: fsdp, prefetch: 2, overlap: {dp: false}}"],
            "parallelism.prefetch: has no effect on time",
        ),
        (["cluster={nodes: 1, gpus: 1, scale_up: {latency: 1 us}}"], "cluster.scale_up: has no effect"),
    ],
)
def test_settings_without_effect_are_said(changes: list[str], start: str) -> None:
    warnings = loads(DENSE, changes).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith(start)


# The network between nodes

CLOS = "cluster.fabric={kind: clos, radix: 16, oversubscription: [1, 4]}"


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ("cluster.fabric={kind: fat-tree}", "cluster.fabric.kind", "rail-clos"),
        ("cluster.fabric={tiers: 4}", "cluster.fabric.tiers", "3"),
        ("cluster.fabric={kind: clos, oversubscription: [0.5]}", "cluster.fabric.oversubscription", "1"),
        (
            "cluster.fabric={kind: clos, oversubscription: [1, 1, 1, 1]}",
            "cluster.fabric.oversubscription",
            "3",
        ),
        ("cluster.fabric={kind: clos, radix: 1}", "cluster.fabric.radix", "2"),
        ("cluster.fabric={kind: torus, dims: [2, 0]}", "cluster.fabric.dims", "1"),
        ("cluster.fabric={kind: clos, routing: random}", "cluster.fabric.routing", "ecmp"),
        ("cluster.fabric={kind: clos, routing: ecmp, queue_pairs: 0}", "cluster.fabric.queue_pairs", "1"),
        ("cluster.fabric={kind: clos, pxn: 1}", "cluster.fabric.pxn", "true or false"),
        ("cluster.fabric={topology: clos}", "cluster.fabric.topology", "kind"),
        ("cluster.background_load={leaf_spine: 1}", "cluster.background_load.leaf_spine", "below 1"),
        ("cluster.background_load={leaf_spine: -0.1}", "cluster.background_load.leaf_spine", "0"),
        ("cluster.background_load={leaf-spines: 0.1}", "cluster.background_load.leaf-spines", "leaf_spine"),
        ("cluster.background_load=0.3", "cluster.background_load", "mapping"),
    ],
)
def test_a_bad_network_is_told_at_its_field(change: str, field: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        loads(DENSE, [change])
    assert any(p.path.startswith(field) and words in p.message for p in caught.value.problems), caught.value


def test_a_network_of_the_scenario_is_the_one_that_is_laid_out() -> None:
    change = "cluster.fabric={kind: rail-only, tiers: 2, radix: 32, oversubscription: [1, 2], routing: ecmp, queue_pairs: 4, pxn: true}"
    found = network(loads(DENSE, [change, "cluster.background_load={leaf_spine: 0.25}", "seed=9"]))
    assert found is not None
    spec, routing = found.spec, found.routing
    assert (spec.kind, spec.tiers, spec.radix, spec.oversubscription) == ("rail-only", 2, 32, (1.0, 2.0))
    assert dict(spec.background) == {"leaf-spine": 0.25}
    assert (routing.mode, routing.queue_pairs, routing.pxn, routing.seed) == ("ecmp", 4, True, 9)
    assert (found.nodes, found.gpus) == (4, 32)


def test_no_network_is_laid_out_where_nothing_can_block() -> None:
    assert network(loads(DENSE)) is None
    assert network(loads(DENSE, ["cluster.background_load={nic_leaf: 0.0}"])) is None
    assert network(loads(DENSE, ["cluster.background_load={nic_leaf: 0.5}"])) is not None


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ([CLOS, "seed=3"], ["seed: has no effect"]),
        (["cluster.fabric={kind: clos, radix: 16, routing: ecmp}", "seed=3"], []),
        ([CLOS, "cluster.background_load={leaf_spine: 0.3}"], []),
        (
            [CLOS, "cluster.background_load={torus: 0.3, dragonfly_global: 0.1}"],
            [
                "cluster.background_load.dragonfly_global: has no effect",
                "cluster.background_load.torus: has no effect",
            ],
        ),
        (["cluster.nodes=1", CLOS], ["cluster.fabric: has no effect: all GPUs lie in one"]),
        (
            ["cluster.nodes=1", "cluster.background_load={nic_leaf: 0.3}"],
            ["cluster.background_load: has no effect: all GPUs lie in one"],
        ),
    ],
)
def test_what_a_network_does_not_feel_is_said(changes: list[str], starts: list[str]) -> None:
    warnings = sorted(loads(DENSE, changes).warnings)
    assert len(warnings) == len(starts)
    assert all(warning.startswith(start) for warning, start in zip(warnings, starts, strict=True))


def test_a_plain_scenario_has_no_warnings() -> None:
    assert loads(DENSE).warnings == ()


# The machine with the scenario's changes


def test_a_new_link_rate_keeps_the_usable_share() -> None:
    before, after = node(loads(DENSE)), node(loads(DENSE, ["cluster.scale_up={link_bandwidth: 128 GB/s}"]))
    share = before.scale_up.usable_bandwidth_Bps / before.scale_up.link_bandwidth_Bps
    assert after.scale_up.usable_bandwidth_Bps == pytest.approx(128e9 * share)
    assert after.scale_up.latency_s == before.scale_up.latency_s


def test_a_new_line_rate_keeps_the_usable_share() -> None:
    before, after = (
        node(loads(DENSE)),
        node(loads(DENSE, ["cluster.nic_bandwidth=800 Gbps", "cluster.nics=4"])),
    )
    assert after.nic.usable_bandwidth_Bps / before.nic.usable_bandwidth_Bps == pytest.approx(
        1e11 / before.nic.line_rate_Bps
    )
    assert after.nics == 4


def test_a_nic_comes_from_the_catalog() -> None:
    assert node(loads(DENSE, ["cluster.nic=pollara-400"])).nic == catalog.nic("pollara-400")


def test_a_measured_table_is_scaled_or_dropped_never_ignored() -> None:
    text = DENSE.replace("mi300x-8x400g", "mi250x-8gcd-4x200g").replace(
        "128, precision: bf16", "128, precision: bf16, attention: unfused"
    )
    table = node(loads(text)).scale_up.bus_bandwidth_Bps
    link = node(loads(text)).scale_up.link_bandwidth_Bps
    assert table
    doubled = node(
        loads(text, [f"cluster.scale_up={{link_bandwidth: {2 * link!r} B/s}}"])
    ).scale_up.bus_bandwidth_Bps
    assert doubled == {group: pytest.approx(2 * rate) for group, rate in table.items()}
    switch = node(loads(text, ["cluster.scale_up={kind: switch, usable_bandwidth: 300 GB/s}"])).scale_up
    assert (switch.kind, dict(switch.bus_bandwidth_Bps), switch.usable_bandwidth_Bps) == ("switch", {}, 300e9)
    with pytest.raises(ScenarioError, match="table of measured bandwidths"):
        loads(text, ["cluster.scale_up={usable_bandwidth: 300 GB/s}"])


def test_twice_the_compute_units_under_one_cap_share_its_power() -> None:
    """Rate = units x clock and clock falls as (power per unit)^0.6, so twice the units give 2^0.4."""
    before, after = node(loads(DENSE)).gpu, node(loads(DENSE, ["cluster.gpu={compute_units: 608}"])).gpu
    assert before.compute_units == 304
    assert after.achievable_flops["bf16"] / before.achievable_flops["bf16"] == pytest.approx(2**0.4)
    assert after.peak_flops["bf16"] == pytest.approx(2 * before.peak_flops["bf16"])
    assert after.hbm_bytes == before.hbm_bytes


def test_unchanged_nodes_are_the_catalogs() -> None:
    assert node(loads(DENSE)) == catalog.node("mi300x-8x400g")
