#!/usr/bin/env bash
# One run on several machines without a queue: the same command on each; only NODE_RANK differs.
#
#   MASTER_ADDR=10.0.0.1 NODE_RANK=0 configs/cluster/torchrun.sh train \
#       --config configs/olsa/sst2.yaml --run NAME
#
#   MASTER_ADDR   address of the machine with NODE_RANK 0, as the others reach it
#   NODE_RANK     0, 1, ... : number of this machine
#   NODES         number of machines (2)
#   PROCESSES     processes on each (one per GPU)
#   MASTER_PORT   a port that is free there, open to the others (29500)
#   PYTHON        the Python of the environment (python)
#
# To resume a run, all machines must see the same runs directory. Details: docs/runbook.md.
set -euo pipefail
: "${MASTER_ADDR:?expected the address of the first machine}"
: "${NODE_RANK:?expected 0 on the first machine, 1 on the second, ...}"
nodes="${NODES:-2}"

# The two dashes are needed: without them torchrun takes our --run for its own --run-path.
exec "${PYTHON:-python}" -m torch.distributed.run \
    --nnodes="$nodes" --node-rank="$NODE_RANK" --nproc-per-node="${PROCESSES:-gpu}" \
    --master-addr="$MASTER_ADDR" --master-port="${MASTER_PORT:-29500}" \
    -m -- app "$@" \
    --trainer.num_nodes="$nodes" --trainer.devices="${PROCESSES:-auto}" --trainer.strategy=ddp
