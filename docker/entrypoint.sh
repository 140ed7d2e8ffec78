#!/bin/sh
# Runs a command of the program with the container's defaults, or another program without changes.
#
#   train --model.depth 1     python -m app train [--run $RUN] --data_dir data --model.depth 1
#   predict --text Fine.      python -m app predict [--run $RUN] --text Fine.
#   bash                      bash
#
# RUN=NAME names the run. DOCTOR=1 checks the machine first, and stops if a check fails. Defaults come before the
# arguments, and later options have priority. In the end the program replaces this script (exec): signals reach
# it, and its exit status is that of the container.
set -eu

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

run=${RUN:-}
me=$(id -u):$(id -g)

# Whether the arguments have one of these options.
given() {
    options=$1
    shift
    for argument; do
        for option in $options; do
            case $argument in "$option" | "$option="*) return 0 ;; esac
        done
    done
    return 1
}

writable() { # FOLDER: if it is not writable, stops with the remedy
    [ ! -w "$1" ] || return 0
    owner=$(stat -c %u:%g "$1")
    if [ "${owner%%:*}" = "${me%%:*}" ]; then
        fail "got $1/, which its owner $owner cannot write; expected a folder where runs can be kept: look how it is mounted"
    fi
    fail "got $1/, which belongs to $owner and cannot be written by $me; run as its owner: UID=${owner%%:*} and" \
        "GID=${owner##*:} in .env (docker run: --user $owner), or give it to $me on the host: chown -R $me FOLDER"
}

command=${1:-}
case $command in '' | -*) exec python -m app "$@" ;; esac
# The program knows the options of its commands.
fills=$(python -m app.cli.commands "$@")
if [ -z "$fills" ] && command -v "$command" >/dev/null; then
    exec "$@" # another program
fi
if [ -z "$fills" ] || [ "$fills" = none ] || given '--help -h --print_config' "$@"; then
    exec python -m app "$@" # lists the commands, if this is not one
fi
shift
has() { case " $fills " in *" $1 "*) return 0 ;; *) return 1 ;; esac }

if has --run; then
    case $run in
    [!A-Za-z0-9]* | *[!A-Za-z0-9._@+=-]*)
        fail "got RUN=$run, expected a name of letters, digits and . _ @ + = - that begins with a letter or digit"
        ;;
    esac
    ! given '--run --ckpt_path' "$@" || run= # the arguments name it
    if given --runs_dir "$@"; then
        elsewhere=yes # for the program to check
    else
        elsewhere=
        grep -q ' /app/runs ' /proc/self/mountinfo ||
            echo "note: runs/ is inside this container and goes with it; keep it with: -v \"\$PWD/runs:/app/runs\"" >&2
        case "$command $fills" in
        serve\ * | export\ * | 'predict --run') ;; # they write nothing there
        *)
            writable runs
            [ -z "$run" ] || [ ! -e "runs/$run" ] || writable "runs/$run"
            ;;
        esac
    fi
    case $command in
    train | fit) ;;
    *)
        if ! given '--run --ckpt_path' "$@" && [ -z "$elsewhere" ] && [ ! -f "runs/${run:-.}/config.yaml" ]; then
            there=$(find runs -mindepth 2 -maxdepth 2 -name config.yaml 2>/dev/null | cut -d / -f 2 | sort | paste -sd ' ')
            fail "got ${run:+RUN=}${run:-no run to $command}; expected RUN=NAME of a run in runs/" \
                "(there are: ${there:-none})"
        fi
        ;;
    esac
fi

if [ "${DOCTOR:-0}" = 1 ]; then
    python -m app doctor --data_dir data || exit
fi
for option in $fills; do
    case $option in
    --run) [ -z "$run" ] || set -- --run "$run" "$@" ;;
    # All addresses of the container; the engine maps addresses of the host to it.
    --host) set -- --host 0.0.0.0 "$@" ;;
    *) set -- "$option" data "$@" ;;
    esac
done
exec python -m app "$command" "$@"
