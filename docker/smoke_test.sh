#!/usr/bin/env bash
# Tries the container for real: builds the CPU image, trains with Compose on the built-in corpus to the end, asks
# TensorBoard for the run's curves, stops a training with SIGTERM and resumes it. Part of .ci/run.
#
#   docker/smoke_test.sh [ARGUMENTS OF docker build]        --build-arg PIP_INDEX_URL=... behind a mirror
#
# Uses whatever engine answers. Where none does, one is started if the script for it lies beside the checkout
# (../shared/tools/docker_engine.sh); otherwise the test is skipped, which it says loudly, with status 0.
# Works in a temporary folder, under a project name of its own, and cleans up; runs/ and .env are not touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

starter=../shared/tools/docker_engine.sh
project=steadfast-smoke-$$
folder=
log=$(mktemp)
step='' why='' began=$SECONDS

say() { printf 'smoke test: %s\n' "$*"; }
skip() {
    printf 'smoke test: SKIPPED, nothing of the container was tried: %s\n' "$*" >&2
    exit 0
}
# One line per step, with its seconds; the output of its commands is shown only if it fails.
begin() { step=$1 began=$SECONDS; }
end() { say "$step ($((SECONDS - began)) s)"; }
fail() {
    why=$*
    exit 1
}

cleanup() {
    local status=$?
    trap - EXIT
    if [ "$status" != 0 ]; then
        tail -n 60 "$log" >&2
        printf 'smoke test: FAILED: %s: %s\n' "$step" "${why:-status $status}" >&2
    fi
    if [ -n "$folder" ]; then
        compose down --volumes --timeout 10 >>"$log" 2>&1 || true
        docker image rm "$IMAGE:cpu" >>"$log" 2>&1 || true
        rm -rf "$folder"
    fi
    rm -f "$log"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits for a condition; not longer than a machine under load takes.
wait_for() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >>"$log" 2>&1; do
        [ "$SECONDS" -lt "$until" ] || fail "$what did not come about"
        sleep 0.2
    done
}

compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose --env-file "$folder/env" -p "$project" -f docker-compose.yml "$@"
    else
        docker-compose --env-file "$folder/env" -p "$project" -f docker-compose.yml "$@"
    fi
}

begin 'engine'
if ! docker info >/dev/null 2>&1 && [ -r "$starter" ]; then
    # In a shell of its own: it ends the shell it runs in when something fails.
    # shellcheck disable=SC2016 # expanded by that shell
    if settings=$(bash -c '. "$1" >&2 && declare -p DOCKER_HOST DOCKER_BUILDKIT STANDIN_BUILD_ARGS PATH' - "$starter" 2>>"$log"); then
        eval "${settings//declare -x/export}"
    else
        tail -n 5 "$log" >&2
        skip "no engine answers, and $starter could not start one (see above)"
    fi
fi
docker info >>"$log" 2>&1 || skip "no container engine answers (docker info); DOCKER_HOST=${DOCKER_HOST:-not set}"
docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1 ||
    skip "neither docker compose nor docker-compose is installed"
end

# What .env of this checkout or the caller's environment say is not for this.
export IMAGE=steadfast-smoke RUN='' ARGS='' CONFIG='' DATA_DIR='' DOCTOR=0 SHM_SIZE='' STOP_GRACE_PERIOD=''
export TENSORBOARD_PORT=0 OMP_NUM_THREADS=1 DOCKER_BUILDKIT=1
unset COMPOSE_FILE COMPOSE_PROFILES COMPOSE_PROJECT_NAME CUDA_VISIBLE_DEVICES HF_TOKEN
folder=$(mktemp -d)
: >"$folder/env"
# Root's files belong to root wherever they lie: prepare.sh is tried then. Anyone else trains as themselves.
[ "$(id -u)" = 0 ] || printf 'UID=%s\nGID=%s\n' "$(id -u)" "$(id -g)" >"$folder/env"
export RUNS_DIR=$folder/runs

begin 'image built, one step trained in it'
read -ra standin <<<"${STANDIN_BUILD_ARGS:+--network host $STANDIN_BUILD_ARGS}"
docker build ${standin[@]+"${standin[@]}"} "$@" --build-arg VARIANT=cpu -f docker/Dockerfile -t "$IMAGE:cpu" . >>"$log" 2>&1 ||
    fail 'docker build'
end

begin 'compose up train: results.json on the host'
small='--model.depth 1 --model.width 32 --data.limit_train 256 --trainer.enable_progress_bar false
    --trainer.limit_test_batches 1 --pgd_steps 2'
RUN=whole ARGS="$small --trainer.max_epochs 2" compose up --exit-code-from train train >>"$log" 2>&1 || fail 'status not 0'
python3 - "$RUNS_DIR/whole/results.json" >>"$log" 2>&1 <<'PYTHON' || fail 'results.json'
import json, sys
results = json.load(open(sys.argv[1]))
assert set(results["seconds"]) == {"fit", "test", "certify"}, results
assert 0 <= results["metrics"]["test/accuracy"] <= 1, results
assert results["metrics"]["certify/radius"] > 0, results
PYTHON
end

begin "TensorBoard: the run's curves over HTTP"
compose up -d tensorboard >>"$log" 2>&1 || fail 'compose up'
address=$(compose port tensorboard 6006)
[ "${address%:*}" = 127.0.0.1 ] || fail "listens at $address, expected 127.0.0.1"
curves() {
    python3 - "http://$address/data/plugin/scalars" <<'PYTHON'
import json, sys
from urllib.parse import urlencode
from urllib.request import urlopen
tags = json.load(urlopen(sys.argv[1] + "/tags", timeout=10))
tag = "val/radius_correct"
assert tag in tags.get("whole", {}), tags
points = json.load(urlopen(f"{sys.argv[1]}/scalars?{urlencode({'run': 'whole', 'tag': tag})}", timeout=10))
assert len(points) == 2, points  # one per epoch
PYTHON
}
wait_for 120 'an answer with the curves' curves
compose rm --force --stop tensorboard >>"$log" 2>&1
end

begin 'training stopped by SIGTERM with status 143, resumed to its end'
stoppable() {
    RUN=stopped ARGS="$small --trainer.max_epochs 60 --checkpoint.monitor null" compose up "$@" train >>"$log" 2>&1
}
stoppable -d || fail 'compose up'
id=$(compose ps -aq train)
wait_for 120 'a first checkpoint' test -e "$RUNS_DIR/stopped/checkpoints/last.ckpt"
docker stop --time 120 "$id" >>"$log" 2>&1
status=$(docker inspect -f '{{.State.ExitCode}}' "$id")
docker logs "$id" >>"$log" 2>&1
[ "$status" = 143 ] || fail "status $status, expected 143"
[ ! -e "$RUNS_DIR/stopped/results.json" ] || ! grep -q certify "$RUNS_DIR/stopped/results.json" || fail 'ended before it was stopped'
stoppable --exit-code-from train || fail 'status not 0 after the second start'
# Without -q: grep would go at the first match, and the logs would end with an error.
docker logs "$(compose ps -aq train)" 2>&1 | grep 'Restoring states .*stopped/checkpoints/last.ckpt' >/dev/null || fail 'began anew'
grep -q certify/radius "$RUNS_DIR/stopped/results.json" || fail 'results.json'
end
