#!/usr/bin/env bash
# Builds .venv from the locks. Called by the Makefile, in the root of the checkout:
#
#   requirements/install.sh runtime STAMP     a fresh .venv with requirements/$VARIANT.txt
#   requirements/install.sh dev STAMP         requirements/dev.txt on top of it
#   requirements/install.sh docs STAMP        a fresh .venv-docs with requirements/docs.txt
#   requirements/install.sh program STAMP     the command .venv/bin/steadfast, which runs this checkout
#
# STAMP is touched when all went well: its name carries a checksum of the lock, so a changed lock or an
# interrupted installation is noticed by the file not being there, and .venv is built anew. Settings: PYTHON,
# VARIANT (cpu or cuda). Where packages come from is pip's own configuration.
set -euo pipefail

stage=$1 stamp=$2
venv=.venv
if [ "$stage" = docs ]; then venv=.venv-docs; fi
marker=$venv/.made-by-make # only what carries it is ever deleted
log=$venv/pip.log

say() { printf 'steadfast: %s\n' "$*"; }
fail() {
    printf 'steadfast: %s\n' "$*" >&2
    exit 1
}

# --no-deps: the locks are complete, and torch's published metadata asks for CUDA packages that cpu.txt leaves
# out. --only-binary: a package built here would take unpinned build tools. Warnings only show when it fails.
try_install() {
    local line
    PIP_USER=0 "$venv/bin/python" -m pip --disable-pip-version-check --no-input install --progress-bar off \
        --no-compile --no-deps --require-hashes --only-binary :all: -r "$1" 2>"$log" |
        while IFS= read -r line; do
            # Of pip's hundred lines, those that explain where the time goes.
            case $line in
            *Downloading*[0-9][0-9].[0-9]' MB'* | *Downloading*' GB'*) say "downloading ${line#*Downloading }" ;;
            Installing*) say "unpacking" ;;
            esac
        done
}

install() {
    try_install "$1" || {
        cat "$log" >&2
        fail "pip could not install $1 (see above); the same command continues from what is downloaded"
    }
    compile
}

# pip compiles on one processor. Files that cannot be compiled are templates and examples of Python 2. A quarter of
# all files are tests of libraries, pip and ray, which no run loads: Python compiles them where one does.
compile() {
    say "compiling"
    "$venv/bin/python" -m compileall -q -j 0 -x '/site-packages/((.*/)?tests|pip|ray)/' \
        "$venv"/lib/python3*/site-packages >/dev/null 2>&1 || true
}

create() {
    "$PYTHON" -c '' 2>/dev/null ||
        fail "got PYTHON=$PYTHON, which does not run; expected Python 3.11 or newer (make PYTHON=python3.12 ...)"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "got $("$PYTHON" --version) as $PYTHON, expected 3.11 or newer; name another one: make PYTHON=python3.12 ..."
    "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "got $PYTHON without its venv module; install it (Debian, Ubuntu: apt install python3-venv) or name another: make PYTHON=..."
    if [ -e "$venv" ] && [ ! -e "$marker" ]; then
        fail "got a $venv that make did not create; move it away (or delete it with: make clean)"
    fi
    rm -rf "$venv"
    mkdir "$venv"
    : >"$marker"
    "$PYTHON" -m venv "$venv"
}

torch_version() { "$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))'; }

runtime() {
    case $VARIANT in cpu | cuda) ;; *) fail "got VARIANT=$VARIANT, expected cpu or cuda" ;; esac
    create
    say "installing requirements/$VARIANT.txt into $venv ($("$venv/bin/python" --version))"
    # Where both are on offer, pip takes the published wheel, whose hash its index states, and not a CPU wheel in
    # a local folder; so it is asked for the CPU wheel first. There may be none (macOS needs none).
    if [ "$VARIANT" = cpu ] && ! try_install requirements/torch-cpu.txt; then
        if grep -q 'DO NOT MATCH THE HASHES' "$log"; then
            say "pip found a CPU wheel of torch that is not locked (requirements/lock.py --torch-wheel FILE adds it); not used"
        elif ! grep -q 'No matching distribution' "$log"; then
            cat "$log" >&2
            fail "pip could not install requirements/torch-cpu.txt (see above)"
        fi
    fi
    install "requirements/$VARIANT.txt"
    if [ "$VARIANT" = cpu ] && ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
        # On Linux the published wheel is the CUDA build, and loads its libraries on import.
        case $(torch_version) in *+cpu) ;; *)
            say "this package index has torch for CUDA only: installing requirements/cuda.txt too (gigabytes; runs without a GPU)"
            say "to avoid that, give pip a CPU wheel of torch $(torch_version) (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL), then: make clean"
            install requirements/cuda.txt
            ;;
        esac
    fi
    "$venv/bin/python" -c 'import torch' || fail "torch is installed and cannot be imported (see above)"
    say "torch $(torch_version) is ready"
}

# An editable installation: setuptools is in the lock, so nothing is fetched. Also `import steadfast` from any folder.
program() {
    PIP_USER=0 "$venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet \
        --no-index --no-deps --no-build-isolation --editable . 2>"$log" || {
        cat "$log" >&2
        fail "pip could not install the command (see above)"
    }
    say "the command is $venv/bin/steadfast (source $venv/bin/activate puts it on the path)"
}

case $stage in
runtime) runtime ;;
program)
    program
    exit
    ;;
docs)
    create
    say "installing requirements/docs.txt into $venv"
    install requirements/docs.txt
    ;;
dev)
    # Another dev stamp: installed from another lock. The mark: an interrupted installation. Begin anew.
    if [ -n "$(find "$venv" -maxdepth 1 -name '.dev-*')" ]; then
        runtime
        : >"$3"
        if [ -e setup.py ]; then program; fi
    fi
    : >"$venv/.dev-unfinished"
    say "installing requirements/dev.txt (tests and lint)"
    install requirements/dev.txt
    rm "$venv/.dev-unfinished"
    ;;
*) fail "got stage $stage, expected runtime, dev, docs or program" ;;
esac
: >"$stamp"
