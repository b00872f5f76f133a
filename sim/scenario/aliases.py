"""Names of Megatron-LM/Primus, TorchTitan and Hugging Face, accepted where our own name belongs.

``canonical`` turns a document into one in our names. An alias beside our own name for the same
field is an error: which of the two was meant cannot be known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sim.scenario.errors import Problem, shown
from sim.scenario.yaml_document import Block, Entry, Node, Scalar


@dataclass(frozen=True)
class Alias:
    """``name`` in section ``section`` means our ``field``; ``values`` translates where values differ too.

    A value translated to None says nothing (it is the other tool's way to leave a feature off).
    """

    section: str
    name: str
    field: str
    origin: str
    values: dict[str | bool, str | bool | None] | None = None


_MEGATRON, _TITAN, _HF = "Megatron-LM and Primus", "TorchTitan", "Hugging Face"
_SWITCH: dict[str | bool, str | bool | None] = {True: True, False: False}

ALIASES: tuple[Alias, ...] = (
    Alias("training", "seq_length", "sequence_length", _MEGATRON),
    Alias("training", "seq_len", "sequence_length", _TITAN),
    Alias("training", "max_context_length", "sequence_length", _TITAN),
    Alias("training", "global_batch_size", "global_batch", f"{_MEGATRON}, {_TITAN}"),
    Alias("training", "micro_batch_size", "micro_batch", _MEGATRON),
    Alias("training", "local_batch_size", "micro_batch", _TITAN),
    Alias("parallelism", "tensor_model_parallel_size", "tp", _MEGATRON),
    Alias("parallelism", "pipeline_model_parallel_size", "pp", _MEGATRON),
    Alias("parallelism", "context_parallel_size", "cp", _MEGATRON),
    Alias(
        "parallelism",
        "cp_comm_type",
        "cp_method",
        _MEGATRON,
        {"p2p": "ring", "all_gather": "all-gather", "a2a": "all-to-all"},
    ),
    Alias("parallelism", "expert_model_parallel_size", "ep", _MEGATRON),
    Alias("parallelism", "expert_tensor_parallel_size", "etp", _MEGATRON),
    Alias("parallelism", "use_tp_pp_dp_mapping", "order", _MEGATRON, {True: "tp-cp-ep-pp-dp", False: None}),
    Alias("parallelism", "tensor_parallel_degree", "tp", _TITAN),
    Alias("parallelism", "pipeline_parallel_degree", "pp", _TITAN),
    Alias("parallelism", "context_parallel_degree", "cp", _TITAN),
    Alias("parallelism", "expert_parallel_degree", "ep", _TITAN),
    Alias(
        "parallelism",
        "pipeline_parallel_schedule",
        "schedule",
        _TITAN,
        {
            "1F1B": "1f1b",
            "GPipe": "gpipe",
            "Interleaved1F1B": "interleaved",
            "ZBVZeroBubble": "zbv",
            "DualPipeV": "dualpipe-v",
        },
    ),
    Alias("parallelism", "virtual_pipeline_model_parallel_size", "virtual_stages", _MEGATRON),
    Alias("parallelism", "decoder_first_pipeline_num_layers", "first_stage_layers", _MEGATRON),
    Alias("parallelism", "decoder_last_pipeline_num_layers", "last_stage_layers", _MEGATRON),
    Alias("parallelism", "use_torch_fsdp2", "data_sharding", _MEGATRON, {True: "fsdp", False: None}),
    Alias(
        "parallelism", "use_distributed_optimizer", "data_sharding", _MEGATRON, {True: "zero-1", False: "ddp"}
    ),
    Alias(
        "parallelism",
        "fsdp_reshard_after_forward",
        "reshard",
        _TITAN,
        {"default": None, "always": True, "never": False},
    ),
    Alias("parallelism", "ddp_bucket_size", "bucket_parameters", _MEGATRON),
    Alias("parallelism", "overlap_grad_reduce", "overlap.dp", _MEGATRON, _SWITCH),
    Alias("parallelism", "overlap_param_gather", "overlap.dp", _MEGATRON, _SWITCH),
    Alias("parallelism", "overlap_p2p_comm", "overlap.pp", _MEGATRON, _SWITCH),
    Alias("parallelism", "tp_comm_overlap", "overlap.tp", _MEGATRON, _SWITCH),
    Alias("model", "num_hidden_layers", "layers", _HF),
    Alias("model", "num_layers", "layers", _MEGATRON),
    Alias("model", "hidden_size", "hidden", f"{_HF}, {_MEGATRON}"),
    Alias("model", "intermediate_size", "ffn", _HF),
    Alias("model", "ffn_hidden_size", "ffn", _MEGATRON),
    Alias("model", "num_attention_heads", "heads", f"{_HF}, {_MEGATRON}"),
    Alias("model", "num_key_value_heads", "kv_heads", _HF),
    Alias("model", "num_query_groups", "kv_heads", _MEGATRON),
    Alias("model", "kv_channels", "head_dim", _MEGATRON),
    Alias("model", "vocab_size", "vocab", _HF),
    Alias("model", "max_position_embeddings", "max_positions", f"{_HF}, {_MEGATRON}"),
    Alias("model", "tie_word_embeddings", "tied_embeddings", _HF),
)

RECOMPUTE_NAMES = (
    "recompute_granularity",
    "recompute_method",
    "recompute_num_layers",
    "recompute_layer_ids",
    "recompute_modules",
    "activation_checkpoint",
)
"""Names in ``training`` that together say what our ``recompute`` says."""

MAY_REPEAT = frozenset({"overlap.dp", "data_sharding"})
"""Fields that another tool spreads over two switches; they may both be given if they agree."""


def canonical(root: Block, problems: list[Problem]) -> Block:
    """``root`` with every alias replaced by our name. Conflicts and unknown values go to ``problems``."""
    entries = dict(root.entries)
    for section in sorted({alias.section for alias in ALIASES}):
        entry = entries.get(section)
        if entry is None or not isinstance(entry.value, Block):
            continue
        block = entry.value
        if section == "training":
            block = _recompute(block, problems)
        entries[section] = replace(entry, value=_renamed(section, block, problems))
    return replace(root, entries=entries)


def check_local_batch(root: Block) -> Iterator[Problem]:
    """TorchTitan cuts its local batch into pipeline micro-batches, so the name is ours only without a pipeline."""
    micro = _field(root, "training", "micro_batch")
    stages = _field(root, "parallelism", "pp")
    if micro is None or micro.key != "local_batch_size" or stages is None:
        return
    if isinstance(stages.value, Scalar) and stages.value.value != 1:
        yield Problem(
            micro.key_position,
            "training.micro_batch",
            "local_batch_size is cut into pipeline micro-batches under pp: write micro_batch, the size of one",
        )


def _field(root: Block, section: str, name: str) -> Entry | None:
    entry = root.entries.get(section)
    return entry.value.entries.get(name) if entry is not None and isinstance(entry.value, Block) else None


def _renamed(section: str, block: Block, problems: list[Problem]) -> Block:
    entries = dict(block.entries)
    for alias in ALIASES:
        if alias.section != section or alias.name not in block.entries:
            continue
        entry = entries.pop(alias.name)
        value = _translated(alias, entry, problems)
        if value is None or _overruled(alias, block):
            continue
        _put(entries, alias, replace(entry, value=value), problems)
    return replace(block, entries=entries)


def _overruled(alias: Alias, block: Block) -> bool:
    """FSDP2 is used *instead of* the distributed optimizer, which is then switched off."""
    if alias.name != "use_distributed_optimizer":
        return False
    fsdp, own = block.entries.get("use_torch_fsdp2"), block.entries[alias.name]
    return fsdp is not None and _scalar(fsdp.value) is True and _scalar(own.value) is False


def _translated(alias: Alias, entry: Entry, problems: list[Problem]) -> Node | None:
    if alias.values is None:
        return entry.value
    value = _scalar(entry.value)
    for known, ours in alias.values.items():
        if type(known) is type(value) and known == value:
            return None if ours is None else Scalar(ours, entry.value.position)
    known_words = ", ".join(shown(word) for word in alias.values)
    problems.append(
        Problem(
            entry.value.position,
            f"{alias.section}.{alias.name}",
            f"{_words(entry.value)}: one of {known_words}",
        )
    )
    return None


def _put(entries: dict[str, Entry], alias: Alias, entry: Entry, problems: list[Problem]) -> None:
    """Files ``entry`` under our name, which may lie one mapping deeper (``overlap.dp``)."""
    outer, dot, inner = alias.field.partition(".")
    if dot:
        holder = entries.get(outer, Entry(outer, entry.key_position, Block({}, entry.value.position)))
        if not isinstance(holder.value, Block):
            return  # a mapping is due there; the schema says so
        nested = dict(holder.value.entries)
        _put(nested, replace(alias, field=inner), entry, problems)
        entries[outer] = replace(holder, value=replace(holder.value, entries=nested))
        return
    other = entries.get(outer)
    if other is None:
        entries[outer] = entry
    elif not (_repeatable(alias) and other.key != outer and _scalar(other.value) == _scalar(entry.value)):
        own = f"{other.key!r} at {other.key_position}"
        problems.append(
            Problem(
                entry.key_position,
                f"{alias.section}.{entry.key}",
                f"means {outer}, already given as {own}: keep one of the two",
            )
        )


def _repeatable(alias: Alias) -> bool:
    return any(a.field in MAY_REPEAT and a.name == alias.name for a in ALIASES)


def _recompute(block: Block, problems: list[Problem]) -> Block:
    """Megatron's three recompute settings, or TorchTitan's mode, as one ``recompute``."""
    given = {name: block.entries[name] for name in RECOMPUTE_NAMES if name in block.entries}
    if not given:
        return block
    first = next(iter(given.values()))
    entries = {key: entry for key, entry in block.entries.items() if key not in given}
    if "recompute" in entries:
        own = f"'recompute' at {entries['recompute'].key_position}"
        message = f"means recompute, already given as {own}: keep one of the two"
        problems.append(Problem(first.key_position, f"training.{first.key}", message))
        return replace(block, entries=entries)
    try:
        value = _titan_mode(given) if "activation_checkpoint" in given else _megatron_recompute(given)
    except _Refused as refused:
        entry = given[refused.name]
        problems.append(Problem(entry.value.position, f"training.{refused.name}", str(refused)))
        return replace(block, entries=entries)
    entries["recompute"] = replace(first, value=value)
    return replace(block, entries=entries)


class _Refused(Exception):
    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def _megatron_recompute(given: dict[str, Entry]) -> Node:
    values = {name: _scalar(entry.value) for name, entry in given.items()}
    granularity, method = values.get("recompute_granularity", "full"), values.get("recompute_method")
    layers = given.get("recompute_num_layers")
    if granularity not in (None, "full", "selective"):
        raise _Refused(
            "recompute_granularity",
            f"{_words(given['recompute_granularity'].value)}: full, selective or null",
        )
    if method not in (None, "block", "uniform"):
        raise _Refused("recompute_method", f"{_words(given['recompute_method'].value)}: block or uniform")
    at = next(iter(given.values())).value.position
    chosen = _chosen_parts(given, granularity)
    if chosen is not None:
        return chosen
    if layers is None or values["recompute_num_layers"] is None:
        return Scalar(str(granularity or "none"), at)
    if granularity != "full":
        raise _Refused("recompute_num_layers", "has no effect without recompute_granularity: full")
    if method == "uniform":
        if values["recompute_num_layers"] != 1:
            raise _Refused(
                "recompute_num_layers", "uniform units of several layers are not modelled yet: use block"
            )
        return Scalar("full", at)
    if str(values["recompute_num_layers"]) == "0":
        return Scalar("none", at)
    return Block({"layers": replace(layers, key="layers")}, layers.value.position)


def _chosen_parts(given: dict[str, Entry], granularity: object) -> Node | None:
    """Megatron-LM's modules of selective recomputation, or Primus' ids of recomputed layers."""
    modules, ids = given.get("recompute_modules"), given.get("recompute_layer_ids")
    if modules is not None and _scalar(modules.value) is not None:
        if granularity != "selective":
            raise _Refused("recompute_modules", "needs recompute_granularity: selective")
        return Block({"modules": replace(modules, key="modules")}, modules.value.position)
    if ids is None or _scalar(ids.value) is None:
        return None
    if granularity != "full" or "recompute_num_layers" in given:
        raise _Refused(
            "recompute_layer_ids", "needs recompute_granularity: full, and no recompute_num_layers"
        )
    return Block({"layers": replace(ids, key="layers")}, ids.value.position)


def _titan_mode(given: dict[str, Entry]) -> Node:
    entry = given["activation_checkpoint"]
    if len(given) > 1:
        raise _Refused(
            "activation_checkpoint", "mixes TorchTitan's and Megatron's names for recompute: keep one"
        )
    if not isinstance(entry.value, Block) or set(entry.value.entries) != {"mode"}:
        raise _Refused("activation_checkpoint", "a mapping with mode: none, selective or full")
    mode = entry.value.entries["mode"].value
    if _scalar(mode) == "selective":  # by operator there; our selective is the attention core
        return Scalar("operator", mode.position)
    if _scalar(mode) not in ("none", "full"):
        raise _Refused("activation_checkpoint", f"{_words(mode)}: mode is none, selective or full")
    return mode


def _scalar(node: Node) -> object:
    """Value of a scalar; the node itself otherwise, which equals no value."""
    return node.value if isinstance(node, Scalar) else node


def _words(node: Node) -> str:
    return shown(node.value) if isinstance(node, Scalar) else "a list or mapping"
