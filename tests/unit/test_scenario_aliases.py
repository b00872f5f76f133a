"""Names of Megatron-LM, Primus, TorchTitan and Hugging Face mean our fields; two names for one are an error."""

from __future__ import annotations

import pytest

from sim.scenario import Scenario, ScenarioError, loads
from sim.scenario.aliases import ALIASES
from sim.scenario.diagnosis import field_names

HEAD = "model: llama-3.1-8b\ncluster: {node: mi300x-8x400g, nodes: 2}\n"
TRAINING = "training: {sequence_length: 8192, global_batch: 64, precision: bf16}\n"


def scenario(training: str, parallelism: str) -> Scenario:
    base = "sequence_length: 8192, global_batch: 64, precision: bf16"
    return loads(f"{HEAD}training: {{{base}{training}}}\nparallelism: {{{parallelism}}}\n")


def test_a_megatron_configuration_reads_as_ours() -> None:
    theirs = loads(
        HEAD
        + """
training:
  seq_length: 4096
  global_batch_size: 64
  micro_batch_size: 2
  precision: bf16
  recompute_granularity: full
  recompute_method: block
  recompute_num_layers: 3
parallelism:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  context_parallel_size: 1
  expert_model_parallel_size: 1
  use_distributed_optimizer: true
  overlap_grad_reduce: false
  overlap_param_gather: false
  overlap_p2p_comm: false
"""
    )
    ours = loads(
        HEAD
        + """
training: {sequence_length: 4096, global_batch: 64, micro_batch: 2, precision: bf16, recompute: {layers: 3}}
parallelism: {tp: 2, pp: 2, data_sharding: zero-1, overlap: {dp: false, pp: false}}
"""
    )
    assert theirs == ours


def test_a_torchtitan_configuration_reads_as_ours() -> None:
    theirs = loads(
        HEAD
        + """
training: {seq_len: 4096, global_batch_size: 64, local_batch_size: 2, precision: bf16, activation_checkpoint: {mode: full}}
parallelism: {tensor_parallel_degree: 1, fsdp_reshard_after_forward: never, data_sharding: fsdp}
"""
    )
    ours = loads(
        HEAD
        + """
training: {sequence_length: 4096, global_batch: 64, micro_batch: 2, precision: bf16, recompute: full}
parallelism: {tp: 1, reshard: false, data_sharding: fsdp}
"""
    )
    assert theirs == ours


@pytest.mark.parametrize(
    ("switches", "sharding"),
    [
        ("use_torch_fsdp2: true", "fsdp"),
        ("use_torch_fsdp2: true, use_distributed_optimizer: false", "fsdp"),
        ("use_torch_fsdp2: false, use_distributed_optimizer: true", "zero-1"),
        ("use_distributed_optimizer: false", "ddp"),
        ("use_torch_fsdp2: false", "zero-1"),
    ],
)
def test_megatron_spreads_sharding_over_two_switches(switches: str, sharding: str) -> None:
    assert scenario("", switches).parallelism.data_sharding == sharding


@pytest.mark.parametrize(
    ("settings", "kind", "layers"),
    [
        ("recompute_granularity: selective", "selective", None),
        ("recompute_granularity: null", "none", None),
        ("recompute_granularity: full", "full", None),
        ("recompute_granularity: full, recompute_num_layers: 5", "full", 5),
        ("recompute_granularity: full, recompute_layer_ids: [5, 0, 1]", "full", (0, 1, 5)),
        ("recompute_granularity: selective, recompute_modules: [core_attn, mlp]", "selective", None),
        ("recompute_granularity: full, recompute_method: uniform, recompute_num_layers: 1", "full", None),
        ("recompute_granularity: full, recompute_method: block, recompute_num_layers: 0", "none", None),
        ("activation_checkpoint: {mode: none}", "none", None),
        ("activation_checkpoint: {mode: selective}", "operator", None),  # by operator there
    ],
)
def test_recompute_of_other_tools(settings: str, kind: str, layers: int | tuple[int, ...] | None) -> None:
    recompute = scenario(f", {settings}", "").training.recompute
    assert (recompute.kind, recompute.layers) == (kind, layers)


def test_hugging_face_widths_read_as_ours() -> None:
    model = loads(
        "model: {hidden_size: 512, num_hidden_layers: 4, num_attention_heads: 8, num_key_value_heads: 4, "
        "intermediate_size: 1536, vocab_size: 32000, tie_word_embeddings: true}\n"
        "cluster: {node: mi300x-8x400g, nodes: 2}\n" + TRAINING
    ).model
    assert not isinstance(model, str)
    assert (model.hidden, model.layers, model.kv_heads, model.tied_embeddings) == (512, 4, 4, True)


@pytest.mark.parametrize("alias", ALIASES, ids=lambda alias: f"{alias.section}.{alias.name}")
def test_every_alias_means_a_field_and_hides_none(alias: object) -> None:
    section, name, field = alias.section, alias.name, alias.field  # type: ignore[attr-defined]
    holder = (section, *field.split(".")[:-1])
    assert field.split(".")[-1] in field_names(holder)
    assert name not in {own.field for own in ALIASES if own.section == section}


@pytest.mark.parametrize(
    ("training", "parallelism", "start"),
    [
        (
            ", seq_length: 4096",
            "",
            "scenario.yaml:3:70: training.seq_length: means sequence_length, already given as 'sequence_length' at scenario.yaml:3:12",
        ),
        (
            "",
            "tp: 2, tensor_model_parallel_size: 2",
            "scenario.yaml:4:22: parallelism.tensor_model_parallel_size: means tp, already given as 'tp' at scenario.yaml:4:15",
        ),
        (
            "",
            "tensor_model_parallel_size: 2, tensor_parallel_degree: 2",
            "scenario.yaml:4:46: parallelism.tensor_parallel_degree: means tp, already given as 'tensor_model_parallel_size' at ",
        ),
        (
            "",
            "data_sharding: ddp, use_distributed_optimizer: true",
            "scenario.yaml:4:35: parallelism.use_distributed_optimizer: means data_sharding, already given",
        ),
        (
            "",
            "use_torch_fsdp2: true, use_distributed_optimizer: true",
            "scenario.yaml:4:38: parallelism.use_distributed_optimizer: means data_sharding, already given as 'use_torch_fsdp2'",
        ),
        (
            "",
            "overlap_grad_reduce: true, overlap_param_gather: false",
            "scenario.yaml:4:42: parallelism.overlap_param_gather: means dp, already given as 'overlap_grad_reduce'",
        ),
        (
            "",
            "use_torch_fsdp2: yes",
            "scenario.yaml:4:32: parallelism.use_torch_fsdp2: 'yes': one of true, false",
        ),
        (
            ", recompute: full, recompute_granularity: full",
            "",
            "scenario.yaml:3:87: training.recompute_granularity: means recompute",
        ),
        (
            ", recompute_granularity: some",
            "",
            "scenario.yaml:3:93: training.recompute_granularity: 'some': full, selective or null",
        ),
        (
            ", recompute_granularity: [full]",
            "",
            "scenario.yaml:3:93: training.recompute_granularity: a list or mapping: full",
        ),
        (
            ", recompute_granularity: selective, recompute_num_layers: 3",
            "",
            "scenario.yaml:3:126: training.recompute_num_layers: has no",
        ),
        (
            ", recompute_method: uniform, recompute_num_layers: 3",
            "",
            "scenario.yaml:3:119: training.recompute_num_layers: uniform units",
        ),
        (
            ", recompute_method: [x]",
            "",
            "scenario.yaml:3:88: training.recompute_method: a list or mapping: block or uniform",
        ),
        (
            ", activation_checkpoint: full",
            "",
            "scenario.yaml:3:93: training.activation_checkpoint: a mapping with mode",
        ),
        (
            ", activation_checkpoint: {mode: [1]}",
            "",
            "scenario.yaml:3:93: training.activation_checkpoint: a list or mapping: mode is",
        ),
        (
            ", local_batch_size: 1",
            "pp: 2",
            "scenario.yaml:3:70: training.micro_batch: local_batch_size is cut into",
        ),
        (
            "",
            "pp: 2, pipeline_parallel_schedule: LoopedBFS",
            "scenario.yaml:4:50: parallelism.pipeline_parallel_schedule: 'LoopedBFS': one of '1F1B'",
        ),
    ],
)
def test_conflicts_and_unknown_values_are_located(training: str, parallelism: str, start: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(training, parallelism)
    assert caught.value.errors[0].startswith(start), caught.value
    assert len(caught.value.errors) == 1
