#!/bin/bash
# A launch script in the manner of Megatron-LM's examples.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-16}
MASTER_ADDR=$(hostname)
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
TP=8

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96     # no key/value groups
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto
    --attention-dropout 0.0 --hidden-dropout 0.0
)
TRAINING_ARGS="
    --micro-batch-size 1 \
    --global-batch-size 192 \
    --lr 6.0e-5 \
    --bf16
    --use-distributed-optimizer
    --overlap-grad-reduce --overlap-param-gather
    --sequence-parallel"
PARALLEL_ARGS=(
	--tensor-model-parallel-size ${TP}
	--pipeline-model-parallel-size 16
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} $TRAINING_ARGS \
    ${PARALLEL_ARGS[@]} \
    --tokenizer-type GPT2BPETokenizer --vocab-file vocab.json \
    --save "checkpoints/run 1" 2>&1 | tee log.txt
