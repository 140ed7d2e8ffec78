#!/usr/bin/env bash
# Tests the real container: builds the CPU image, trains with Compose on the built-in corpus to the end, attacks and
# predicts, queries the live page, the detector and TensorBoard over HTTP, stops a training with SIGTERM and resumes
# it. Part of .ci/run.
#
#   docker/smoke_test.sh [ARGUMENTS OF docker build]        --build-arg PIP_INDEX_URL=... with a mirror
#
# Uses any running engine. If there is none, it starts one by the script next to the checkout, if that exists
# (../shared/tools/docker_engine.sh), and stops it at the end; otherwise it skips the test, with a clear message and
# status 0. Every step has a time limit: an engine that hangs counts as unavailable.
# Works in a temporary folder, under a separate project name, and cleans up; runs/ and .env are not touched.
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

# A command that may hang, with a limit in seconds.
limited() { timeout --kill-after=10 "$@"; }
answers() { limited 30 docker info >>"$log" 2>&1; }

# Marks the background processes of the starter in their environment.
mark=STEADFAST_SMOKE_ENGINE=$$
started() { grep -slFz -- "$mark" /proc/[0-9]*/environ | cut -d/ -f3 | grep -vx "$$" || true; }
stop_engine() {
    local signal pid
    for signal in TERM KILL; do
        for pid in $(started); do kill -s "$signal" "$pid" 2>/dev/null || true; done
        for _ in $(seq 50); do
            [ -n "$(started)" ] || return 0
            sleep 0.2
        done
    done
}

cleanup() {
    local status=$?
    trap - EXIT
    if [ "$status" != 0 ]; then
        tail -n 60 "$log" >&2
        # It is a failure of the image only if the engine still works.
        if [ "$status" = 1 ] && [ -n "$folder" ] && ! answers; then
            printf 'smoke test: SKIPPED in the middle of "%s" (%s): the container engine no longer answers\n' "$step" "$why" >&2
            status=0
        else
            printf 'smoke test: FAILED: %s: %s\n' "$step" "${why:-status $status}" >&2
        fi
    fi
    if [ -n "$folder" ]; then
        compose 60 down --volumes --timeout 10 >>"$log" 2>&1 || true
        limited 60 docker image rm "$IMAGE:cpu" >>"$log" 2>&1 || true
        rm -rf "$folder"
    fi
    stop_engine
    rm -f "$log"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits for a condition, with a limit that suits a busy machine.
wait_for() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >>"$log" 2>&1; do
        [ "$SECONDS" -lt "$until" ] || fail "$what did not come about"
        sleep 0.2
    done
}

compose() { # SECONDS ARGUMENTS...
    local seconds=$1
    shift
    limited "$seconds" "${tool[@]}" --env-file "$folder/env" -p "$project" -f docker-compose.yml "$@"
}

begin 'engine'
if ! answers && [ -r "$starter" ]; then
    # In a separate shell, because an error ends its shell. Into a file, because its background processes would
    # keep a pipe open.
    settings=$(mktemp)
    # shellcheck disable=SC2016 # expanded by that shell
    limited 420 env "$mark" bash -c '. "$1" >&2 && declare -p DOCKER_HOST DOCKER_BUILDKIT STANDIN_BASE STANDIN_BUILD_ARGS PATH >"$2"' \
        - "$starter" "$settings" >>"$log" 2>&1 && status=0 || status=$?
    found=$(<"$settings")
    rm -f "$settings"
    if [ "$status" != 0 ]; then
        tail -n 5 "$log" >&2
        [ "$status" != 124 ] || skip "no engine answers, and $starter was not done after 420 s"
        skip "no engine answers, and $starter could not start one (see above)"
    fi
    eval "${found//declare -x/export}"
fi
answers || skip "no container engine answers (docker info); DOCKER_HOST=${DOCKER_HOST:-not set}"
if limited 30 docker compose version >/dev/null 2>&1; then
    tool=(docker compose)
elif limited 30 docker-compose version >/dev/null 2>&1; then
    tool=(docker-compose)
else
    skip "neither docker compose nor docker-compose is installed"
fi
# An engine can respond and still be unable to run containers, for example on machines without namespaces.
if [ -n "${STANDIN_BASE:-}" ]; then
    limited 120 docker run --rm --network host "$STANDIN_BASE" python3 -c '' >>"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        skip "the engine answers, but cannot run a container (see above)"
    }
    limited 120 docker run --rm --network host "$STANDIN_BASE" \
        python3 -m pip download --quiet --no-deps --no-cache-dir -d /tmp packaging >>"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        skip "no package index can be reached from inside a container (see above)"
    }
fi
end

# Ignores .env of this checkout and the caller's environment.
export IMAGE=steadfast-smoke RUN='' ARGS='' CONFIG='' DATA_DIR='' DOCTOR=0 SHM_SIZE='' STOP_GRACE_PERIOD=''
export TENSORBOARD_PORT=0 SERVE_PORT=0 GUARD_PORT=0 MEMORY_LIMIT='' OMP_NUM_THREADS=1 DOCKER_BUILDKIT=1
unset COMPOSE_FILE COMPOSE_PROFILES COMPOSE_PROJECT_NAME CUDA_VISIBLE_DEVICES OMP_WAIT_POLICY
export HF_TOKEN=not-a-token
folder=$(mktemp -d)
: >"$folder/env"
# As root, this tests prepare.sh; other users train under their own id.
[ "$(id -u)" = 0 ] || printf 'UID=%s\nGID=%s\n' "$(id -u)" "$(id -g)" >"$folder/env"
export RUNS_DIR=$folder/runs

begin 'image built, one step trained in it'
read -ra standin <<<"${STANDIN_BUILD_ARGS:+--network host $STANDIN_BUILD_ARGS}"
limited 1500 docker build ${standin[@]+"${standin[@]}"} "$@" --build-arg VARIANT=cpu -f docker/Dockerfile -t "$IMAGE:cpu" . >>"$log" 2>&1 ||
    fail 'docker build'
end

begin 'compose up train: results.json on the host'
small='--model.depth 1 --model.width 32 --data.limit_train 256 --trainer.enable_progress_bar false
    --trainer.limit_test_batches 1 --pgd.steps 2'
RUN=whole ARGS="$small --trainer.max_epochs 2 --detect.positive positive" compose 600 up --exit-code-from train train >>"$log" 2>&1 || fail 'status not 0'
python3 - "$RUNS_DIR/whole/results.json" >>"$log" 2>&1 <<'PYTHON' || fail 'results.json'
import json, sys
results = json.load(open(sys.argv[1]))
assert set(results["seconds"]) == {"fit", "test", "certify"}, results
assert 0 <= results["metrics"]["test/accuracy"] <= 1, results
assert results["metrics"]["certify/radius"] > 0, results
PYTHON
end

begin 'compose run attack: deepwordbug, which needs nothing beside the image'
RUN=whole compose 300 run --rm attack --attack deepwordbug --num_samples 4 >>"$log" 2>&1 || fail 'status not 0'
grep -q attack/deepwordbug/accuracy "$RUNS_DIR/whole/results.json" || fail 'results.json'
end

begin 'compose run cli: predict, as JSON lines'
RUN=whole compose 300 run --rm cli predict --text 'A fine film.' >"$folder/predicted" 2>>"$log" || fail 'status not 0'
grep -q '"prediction"' "$folder/predicted" || fail 'no prediction'
end

begin 'compose up serve: an answer over HTTP, again after a crash'
RUN=whole compose 120 up -d serve >>"$log" 2>&1 || fail 'compose up'
answered() {
    # Each start has another port.
    address=$(compose 60 port serve 8000) && [ "${address%:*}" = 127.0.0.1 ] &&
        python3 -c 'import sys; from urllib.request import urlopen; urlopen(sys.argv[1], timeout=10)' "http://$address/health"
}
wait_for 180 'an answer of the page' answered
id=$(compose 60 ps -q serve)
[ -z "$(limited 60 docker inspect -f '{{.Config.Env}}' "$id" | grep HF_TOKEN)" ] || fail 'HF_TOKEN in serve'
limited 60 docker exec "$id" sh -c 'kill -9 -1' >>"$log" 2>&1 || true
restarted() { [ "$(limited 30 docker inspect -f '{{.RestartCount}}' "$id")" -ge 1 ]; }
wait_for 60 'a second start of the page' restarted
wait_for 180 'an answer of the page after the crash' answered
compose 120 rm --force --stop serve >>"$log" 2>&1
end

begin 'compose up guard: decisions of a detector over HTTP, counted in /metrics'
RUN=whole compose 120 up -d guard >>"$log" 2>&1 || fail 'compose up'
decided() {
    address=$(compose 60 port guard 8000) && [ "${address%:*}" = 127.0.0.1 ] && python3 - "http://$address" <<'PYTHON'
import json, sys
from urllib.request import Request, urlopen
body = json.dumps({"texts": ["A fine film.", "Dull."]}).encode()
request = Request(sys.argv[1] + "/api/predict", body, {"Content-Type": "application/json"})
answers = json.load(urlopen(request, timeout=10))["predictions"]
assert [answer["detected"] is (answer["score"] >= 0) for answer in answers] == [True, True], answers
lines = urlopen(sys.argv[1] + "/metrics", timeout=10).read().decode().splitlines()
counts = [float(line.split()[-1]) for line in lines if line.startswith("steadfast_decisions_total{")]
assert sum(counts) >= len(answers), lines
PYTHON
}
wait_for 180 'a decision' decided
compose 120 rm --force --stop guard >>"$log" 2>&1
end

begin "TensorBoard: the run's curves over HTTP"
compose 120 up -d tensorboard >>"$log" 2>&1 || fail 'compose up'
address=$(compose 60 port tensorboard 6006)
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
compose 120 rm --force --stop tensorboard >>"$log" 2>&1
end

begin 'training stopped by SIGTERM with status 143, resumed to its end'
stoppable() {
    RUN=stopped ARGS="$small --trainer.max_epochs 150 --checkpoint.monitor null" compose 600 up "$@" train >>"$log" 2>&1
}
stoppable -d || fail 'compose up'
id=$(compose 60 ps -aq train)
wait_for 120 'a first checkpoint' test -e "$RUNS_DIR/stopped/checkpoints/last.ckpt"
limited 180 docker stop --time 120 "$id" >>"$log" 2>&1
status=$(limited 60 docker inspect -f '{{.State.ExitCode}}' "$id")
limited 60 docker logs "$id" >>"$log" 2>&1
[ "$status" = 143 ] || fail "status $status, expected 143"
[ ! -e "$RUNS_DIR/stopped/results.json" ] || ! grep -q certify "$RUNS_DIR/stopped/results.json" || fail 'ended before it was stopped'
stoppable --exit-code-from train || fail 'status not 0 after the second start'
# Without -q: grep would exit at the first match, and the logs would end with an error.
limited 60 docker logs "$(compose 60 ps -aq train)" 2>&1 | grep 'run stopped resumes after step' >/dev/null || fail 'began anew'
grep -q certify/radius "$RUNS_DIR/stopped/results.json" || fail 'results.json'
end
